"""Decoded events, whatever they were decoded from -> a `Part`: in order, nested, linked, in steps, on disk."""
