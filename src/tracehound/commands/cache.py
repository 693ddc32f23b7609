"""What the cache holds."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from tracehound import console
from tracehound.errors import TracehoundError
from tracehound.report.kept import listing
from tracehound.store import cache
from tracehound.units import plural


def run(asked: Namespace) -> int:
    """List what the cache holds, or clear it."""
    root: Path | None = asked.cache
    try:
        root = root or cache.default_root()
        kept = cache.existing(root)
    except OSError as error:
        raise TracehoundError(f"no cache here: {(error.strerror or str(error)).lower()}", root) from error
    if asked.action == "clear":
        gone, stay = kept.clear() if kept else (0, 0)
        console.say(
            f"{plural(gone, 'entry', 'entries')} removed"
            + (f", {plural(stay, 'entry', 'entries')} in use kept" if stay else "")
        )
    else:
        console.show(listing(kept.entries() if kept else [], root), asked)
    if kept:
        kept.close()
    return 0
