"""Arrays of events in JSON text, of any size and damaged in any way."""
