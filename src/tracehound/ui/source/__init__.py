"""From what a trace says of source code to the lines themselves: which line, where it lies here, what it reads."""
