"""Every key, and what the user made of it."""
