"""Numbers -> characters, for panes and for reports alike; knows no terminal toolkit."""
