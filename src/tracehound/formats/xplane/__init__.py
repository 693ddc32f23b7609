"""Reader of XLA profiles in the form of ``*.xplane.pb``."""
