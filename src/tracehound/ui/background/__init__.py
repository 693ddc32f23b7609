"""Work that no screen waits for."""
