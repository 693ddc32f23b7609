"""The headless face: `Result` -> text, markdown, csv, json. `WRITERS` is the literal list of forms."""
