"""Widgets of our own: the timeline and the table of any result."""
