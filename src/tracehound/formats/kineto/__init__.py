"""Reader of PyTorch profiler traces (Kineto JSON)."""
