"""Widgets: the timeline, tables, charts, prompts and bars."""
