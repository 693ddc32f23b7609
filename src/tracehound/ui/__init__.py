"""The interactive face; the only importer of textual."""
