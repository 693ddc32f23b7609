"""The programs of an XLA profile as the compiler left them: instructions, how they hang together, and in words."""
