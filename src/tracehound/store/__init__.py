"""Many files -> one `Trace`: find them, recognise them, ingest them, keep them, place them on one clock."""

from __future__ import annotations

from tracehound.store.clock import Alignment
from tracehound.store.opening import CancelledError, Opening, args, load, open_paths
from tracehound.store.place import place
from tracehound.store.reading import Reading
from tracehound.store.sections import Sections
from tracehound.store.workshop import Workshop, workshop

__all__ = [
    "Alignment",
    "CancelledError",
    "Opening",
    "Reading",
    "Sections",
    "Workshop",
    "args",
    "load",
    "open_paths",
    "place",
    "workshop",
]
