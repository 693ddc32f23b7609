"""The memory of another process of this machine, which is known by the port that it listens on. Linux only."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")

_LISTENING: Final = "0A"
"""The state of a listening socket in the kernel's tables."""


def listening_process(port: int) -> int | None:
    """The id of the process that listens on a TCP port of this machine.

    None if there is none, if several do, or if it belongs to another user.
    """
    sockets = {f"socket:[{inode}]" for inode in _listening_inodes(port)}
    owners = {pid for pid, links in _open_files() if not sockets.isdisjoint(links)} if sockets else set()
    return owners.pop() if len(owners) == 1 else None


def resident_bytes(pid: int) -> int | None:
    """The bytes of memory that a process occupies; None if it has ended or cannot be seen."""
    with suppress(OSError, ValueError, IndexError):
        return int((_PROC / str(pid) / "statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
    return None


def _listening_inodes(port: int) -> Iterator[str]:
    """The inodes of the sockets that listen on a port."""
    for table in ("tcp", "tcp6"):
        with suppress(OSError):
            for line in (_PROC / "net" / table).read_text().splitlines()[1:]:
                words = line.split()
                if words[3] == _LISTENING and int(words[1].rpartition(":")[2], 16) == port:
                    yield words[9]


def _open_files() -> Iterator[tuple[int, set[str]]]:
    """The processes that this user can see, each with what its file descriptors lead to."""
    for folder in _PROC.iterdir():
        if folder.name.isdigit():
            links = set[str]()
            with suppress(OSError):
                for file in (folder / "fd").iterdir():
                    with suppress(OSError):
                        links.add(os.readlink(file))  # noqa: PTH115, it is no path
            yield int(folder.name), links
