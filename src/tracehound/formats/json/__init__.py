"""Arrays of events in JSON text, of any size and in any state."""
