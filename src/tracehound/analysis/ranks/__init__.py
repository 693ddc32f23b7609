"""Collectives of ranks: matching, process groups, clock offsets, bandwidth, and lateness."""
