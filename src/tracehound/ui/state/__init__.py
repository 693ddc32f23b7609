"""Position in a trace and the moves from it: values and functions, no widgets."""
