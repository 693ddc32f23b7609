"""XLA profiles: XSpaces, and what is said in them."""
