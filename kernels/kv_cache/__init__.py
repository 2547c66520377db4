"""A model of a serving engine's paged KV cache: arrays, block manager, scheduler, and example histories."""
