"""Characters for numbers: cells, tables, timelines and charts as text. Uses no terminal toolkit."""
