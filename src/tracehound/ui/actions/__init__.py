"""What the screens do when a key asks for it."""
