"""XLA profiles in the Chrome trace format (trace.json)."""
