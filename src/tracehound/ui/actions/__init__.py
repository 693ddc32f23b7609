"""Actions of the screens: one module for each group of keys."""
