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

from tracehound.numeric.native import interval_loops, load_library, row_loops, scanners

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
            taken += scanner.scan_list(text) is not None
    return taken


def events(random: Random, turns: int) -> int:
    """Events of an XPlane; how many inputs were taken."""
    taken = 0
    for _ in range(turns):
        data = bytearray(EVENTS * random.randrange(1, 3))
        for _ in range(random.randrange(4)):
            data[random.randrange(len(data))] = random.choice((0, 1, 8, 0x10, 0x18, 0x22, 0x2A, 0x11, 0x7F, 0x80, 0xFF))
        with exactly(bytes(data[: random.randrange(1, len(data) + 1)])) as some:
            taken += scanners.decode_xevents(np.frombuffer(some, np.uint8), CODES, 3) is not None
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
        interval_loops.nest_in_c(start, end, first, known)
        interval_loops.is_sorted_by_lane(end % 3, start, end)
        row_loops.nearest_chosen(parent, chosen)
        interval_loops.self_times(start, end, parent)
        label = np.array([random.randrange(-1, 3) for _ in range(count)], np.int8)
        row_loops.inherit_values(parent, label)
        interval_loops.innermost_intervals(start, end, parent, label=label)
        interval_loops.innermost_intervals(start, end, parent, group=end % 3)
        interval_loops.innermost_intervals(start, end, parent, separate_roots=True)
        names, kinds = (np.abs(values % 4).astype(kind) for values, kind in ((start, np.uint32), (end, np.uint8)))
        row = row_loops.find_row_of_each_pair(names, kinds, 4, 4)
        row_loops.mark_occurring(names, 4)
        row_loops.look_up_bytes(names, kinds, 4, np.zeros(16, np.int8))
        row_loops.look_up_numbers(names, kinds, 4, np.zeros(0, np.int64) if row is None else row)
        row_loops.find_consecutive_rows(random.randrange(-3, 9), count, end)
        row_loops.sum_by_group(end % 9 - 1, start, 8)
        row_loops.find_largest_per_group(end % 9 - 1, start, end, 8)
        row_loops.match_starts_to_ends(end % 5, np.argsort(start), int(chosen.sum()), 5)
        row_loops.sum_subtrees(parent, start)
        row_loops.mark_repeated(parent, chosen, end % 9, 9)
        row_loops.group_by_path(parent, start, end % 3)
        start.sort()
        one = interval_loops.union_sorted(start, np.maximum(start, end))
        other = interval_loops.union_sorted(start[::3], start[::3] + random.randrange(9))
        assert one is not None
        assert other is not None
        taken += interval_loops.merge_sets(*one, *other) is not None
        interval_loops.intersect_sets(*one, *other)
        interval_loops.count_instants_reached(start, end)
        interval_loops.exclusive_starts(start, end, parent, np.sort(end % 5))
        interval_loops.find_latest_begun(np.sort(end % 5), start // 9, end % 7, start)
        before = np.append(0, np.cumsum(one[1] - one[0]))
        interval_loops.covered_lengths(*one, before, end, end[::-1])
        interval_loops.add_overlap_times(
            end, end[::-1] + 3, end % 5, one, np.arange(len(one[0])) % 3, np.zeros(7, np.int64)
        )
    return taken


def main() -> None:
    library = load_library(Path(sys.argv[1]))
    for module in (row_loops, interval_loops, scanners, interval_loops, row_loops, scanners):
        module.library = lambda: library
    random = Random(7)
    print(lists(random, 15_000), events(random, 15_000), intervals(random, 2_000))


if __name__ == "__main__":
    main()
