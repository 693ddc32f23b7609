"""The command ``cache``: list the entries of the cache, or clear it."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from tracehound.cli import console
from tracehound.errors import TracehoundError
from tracehound.model.units import count_noun
from tracehound.report.listings import list_cache_entries
from tracehound.store import trace_cache


def run(options: Namespace) -> int:
    """List the entries of the cache, or remove them."""
    root: Path | None = options.cache
    try:
        root = root or trace_cache.default_root()
        cache = trace_cache.open_existing_cache(root)
    except OSError as error:
        raise TracehoundError(f"no cache here: {(error.strerror or str(error)).lower()}", root) from error
    if options.action == "clear":
        removed, in_use = cache.clear() if cache else (0, 0)
        console.print_message(
            f"{count_noun(removed, 'entry', 'entries')} removed"
            + (f", {count_noun(in_use, 'entry', 'entries')} in use kept" if in_use else "")
        )
    else:
        console.print_lines(list_cache_entries(cache.list_entries() if cache else [], root), options)
    if cache:
        cache.close()
    return 0
