"""Activity of host threads: the program, its operators, and the work that they launch."""
