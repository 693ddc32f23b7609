"""Charts of results as lines of characters, of exactly the size asked for and without colors."""
