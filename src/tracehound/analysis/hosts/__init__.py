"""What the threads of a host do: the program, its operators, and what they launch."""
