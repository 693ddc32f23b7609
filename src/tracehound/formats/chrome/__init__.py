"""XLA profiles in their Chrome form."""
