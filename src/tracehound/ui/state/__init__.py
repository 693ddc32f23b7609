"""Where one is in a trace, and where one can go from there: values and functions, no widgets."""
