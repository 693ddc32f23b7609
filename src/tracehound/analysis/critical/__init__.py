"""The graph of what waits for what, and the walk through it that no shortcut shortens."""
