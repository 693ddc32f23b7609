"""What devices do, and what they can do: copies, kernels, memory, peaks."""
