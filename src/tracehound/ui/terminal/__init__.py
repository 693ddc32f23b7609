"""The terminal that the explorer runs in, and what leaves it."""
