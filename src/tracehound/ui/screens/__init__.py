"""Screens: the only place that connects two widgets."""
