"""Many files -> one `Trace`: find them, recognise them, ingest them in parallel, place them on one clock."""
