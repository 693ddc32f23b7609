"""Panes that show results below the timeline."""
