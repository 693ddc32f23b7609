"""The data model: a trace and its frames, facts of files, notes, and the formatting of numbers."""
