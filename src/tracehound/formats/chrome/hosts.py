"""Which host a process of an XLA trace.json is of: XLA writes a file for each host, our own exports one for several.

Owns how hosts are numbered. Knows no lanes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tracehound.formats.chrome.columns import Columns, Text


class Hosts(NamedTuple):
    """The names of the hosts, in order, and the position of that of each process which says it; others are the first's.

    Process and host may be called alike on all of them.
    """

    names: tuple[str, ...]
    of: Mapping[Text, int]

    def plain(self, process: Text, name: str) -> str:
        """The name of a process without that of its host; devices have none in theirs."""
        at = None if name.startswith("/device:") else self.of.get(process)
        return name if at is None else name.removesuffix(f" {self.names[at]}")


def hosts(columns: Columns, alone: str) -> Hosts:
    """The hosts that the file tells of; where it tells of none, that which is `alone` in it."""
    told = dict(sorted(columns.hosts.values()))
    position = {number: at for at, number in enumerate(told)}
    names = tuple(name or alone for name in told.values())
    return Hosts(names or (alone,), {process: position[number] for process, (number, _) in columns.hosts.items()})
