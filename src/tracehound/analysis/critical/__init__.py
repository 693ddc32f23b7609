"""Critical path: the dependencies between host threads, streams and waits, and the walk back through them."""
