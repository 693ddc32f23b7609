"""PyTorch profiler's traces."""
