"""Questions about a trace. `ANALYSES` is the literal list of them; one file for each."""
