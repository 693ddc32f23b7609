"""Interactive terminal interface. Only this package imports textual."""
