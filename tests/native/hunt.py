"""Gives what is compiled tens of thousands of damaged inputs: ``hunt.py LIBRARY``, built with the compiler's checks.

Each input lies in memory of just its size, so that one byte beyond is an error. Prints how many inputs were taken.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import numpy as np
from scanning import damaged, made

from tracehound.native import groups, loaded, nest, scan, sweep, trees, xevents

LISTS = [
    b'[{"ph": "X", "ts": 1.5, "name": "a\\"b", "args": {"dims": [[1, 2], {"a": []}], "id": 5}}, {"ph":"s"}]',
    b'[ {"ph":"X","pid":-12,"x":[true,false,null,1e-5,"\\u00e9"],"args":{}} , {} ,\n{"name":"\xc3\xa9","ts":12}]',
]

EVENT = bytes.fromhex(
    "0805 108001 1807 22040801182a 220608021080808001 22070803 2a03616263 220b 0804 11 0000000000000840"
)
"""The fields of an XEvent with a number, an unknown one, a text and a double among its stats."""

EVENTS = b"".join(b"\x22%c%b" % (len(event), event) for event in (EVENT, b"", EVENT[:7], EVENT))
CODES = np.array([-1, 0, -1, 1, 2, *[-1] * 11], np.int8)


@contextmanager
def exactly(data: bytes) -> Iterator[memoryview]:
    """The bytes in memory of just their size."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = (
        ctypes.c_void_p,
        [ctypes.c_size_t],
        [ctypes.c_void_p],
    )
    place = libc.malloc(len(data))
    ctypes.memmove(place, data, len(data))
    yield memoryview((ctypes.c_char * len(data)).from_address(place))
    libc.free(place)


def lists(random: Random, turns: int) -> int:
    """Lists of JSON; how many were taken."""
    taken = 0
    for turn in range(turns):
        if turn % 1000 == 0:
            scanner = made()
        with exactly(damaged(random.choice(LISTS), random)) as text:
            taken += scanner.objects(text) is not None
    return taken


def events(random: Random, turns: int) -> int:
    """Events of an XPlane; how many inputs were taken."""
    taken = 0
    for _ in range(turns):
        data = bytearray(EVENTS * random.randrange(1, 3))
        for _ in range(random.randrange(4)):
            data[random.randrange(len(data))] = random.choice((0, 1, 8, 0x10, 0x18, 0x22, 0x2A, 0x11, 0x7F, 0x80, 0xFF))
        with exactly(bytes(data[: random.randrange(1, len(data) + 1)])) as some:
            taken += xevents.events(np.frombuffer(some, np.uint8), CODES, 3) is not None
    return taken


def intervals(random: Random, turns: int) -> int:
    """Any intervals, also such as nobody would give; how many inputs were taken."""
    taken = 0
    for _ in range(turns):
        count = random.randrange(3_000 if random.random() < 0.01 else 50)
        start, end = (np.array([random.randrange(-5, 60) for _ in range(count)], np.int64) for _ in range(2))
        first = np.array([0, *sorted(random.randrange(60) for _ in range(random.randrange(4)))], np.int64)
        known = np.arange(random.randrange(count + 1), dtype=np.int64)
        chosen = np.array([random.random() < 0.5 for _ in range(count)], np.bool_)
        parent = np.array([random.randrange(-1, max(row, 1)) for row in range(count)], np.int64)
        if random.random() < 0.2 and count:  # none that comes after the one above it
            parent[random.randrange(count)] = random.randrange(count)
        nest.nested(start, end, first, known)
        nest.ordered(end % 3, start, end)
        trees.nearest(parent, chosen)
        sweep.self_time(start, end, parent)
        label = np.array([random.randrange(-1, 3) for _ in range(count)], np.int8)
        trees.inherited(parent, label)
        sweep.innermost(start, end, parent, label=label)
        sweep.innermost(start, end, parent, group=end % 3)
        sweep.innermost(start, end, parent, apart=True)
        names, kinds = (np.abs(values % 4).astype(kind) for values, kind in ((start, np.uint32), (end, np.uint8)))
        row = groups.one_of_each(names, kinds, 4, 4)
        groups.occurring(names, 4)
        groups.told(names, kinds, 4, np.zeros(16, np.int8))
        groups.numbered(names, kinds, 4, np.zeros(0, np.int64) if row is None else row)
        groups.rows_from(random.randrange(-3, 9), count, end)
        groups.add(end % 9 - 1, start, 8)
        groups.most(end % 9 - 1, start, end, 8)
        groups.earliest(end % 5, np.argsort(start), int(chosen.sum()), 5)
        trees.with_below(parent, start)
        trees.again(parent, chosen, end % 9, 9)
        trees.paths(parent, start, end % 3)
        start.sort()
        one = sweep.union(start, np.maximum(start, end))
        other = sweep.union(start[::3], start[::3] + random.randrange(9))
        assert one is not None
        assert other is not None
        taken += sweep.merge(*one, *other) is not None
        sweep.intersect(*one, *other)
        sweep.passed(start, end)
        sweep.unshared(start, end, parent, np.sort(end % 5))
        sweep.latest(np.sort(end % 5), start // 9, end % 7, start)
        before = np.append(0, np.cumsum(one[1] - one[0]))
        sweep.covered(*one, before, end, end[::-1])
        sweep.shared_time(end, end[::-1] + 3, end % 5, one, np.arange(len(one[0])) % 3, np.zeros(7, np.int64))
    return taken


def main() -> None:
    library = loaded(Path(sys.argv[1]))
    for module in (groups, nest, scan, sweep, trees, xevents):
        module.library = lambda: library
    random = Random(7)
    print(lists(random, 40_000), events(random, 40_000), intervals(random, 5_000))


if __name__ == "__main__":
    main()
