"""A model of a serving engine's paged KV cache: its arrays, its block manager, its scheduler, and histories to show."""
