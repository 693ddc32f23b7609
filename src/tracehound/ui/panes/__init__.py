"""Panes: what shows a result; each watches the one view."""
