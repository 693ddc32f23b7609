"""Screens. Only they connect widgets with each other."""
