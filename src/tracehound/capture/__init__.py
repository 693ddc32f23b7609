"""A running job to files: profiles captured from outside, by the profiler servers of its processes or by dynolog."""
