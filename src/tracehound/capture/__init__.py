"""A running job to files: profiles captured from outside, through the profiler servers of its processes."""
