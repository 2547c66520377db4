"""Attention that skips what a mask hides: masks as lists of blocks, and at the level of elements."""
