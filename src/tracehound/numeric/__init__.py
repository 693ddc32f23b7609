"""Arithmetic on numpy arrays: intervals, nesting, trees of rows, sets of ids. Knows nothing of traces."""
