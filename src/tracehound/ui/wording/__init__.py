"""Texts of the explorer, and its colors."""
