"""Many files -> one `Trace`: find them, recognise them, ingest them, place them on one clock."""

from __future__ import annotations

from tracehound.store.opening import CancelledError, Opening, Reading, args, load, open_paths
from tracehound.store.place import place

__all__ = ["CancelledError", "Opening", "Reading", "args", "load", "open_paths", "place"]
