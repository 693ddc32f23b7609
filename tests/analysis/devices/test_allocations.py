"""Memory: peaks, blocks, operators and curves; stories for each, and all of it against loops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import field

from building import US, Building, listing, stream, thread
from short import first
from tracehound.analysis import Options, Result, get_analysis, memory_curve, run_analysis
from tracehound.draw.notes import note_texts
from tracehound.model.notes import note
from tracehound.model.trace import Trace, Window
from tracehound.store import load_trace, merge_file_frames, open_trace_files

MAIN = thread("main")
GPU = {"id": 0, "numSms": 100, "maxThreadsPerMultiprocessor": 2048, "totalGlobalMem": 1000}


def told(trace: Trace, name: str, window: Window | None = None, **settings: str) -> Result:
    return run_analysis(get_analysis(name), trace, window, Options(given=tuple(sorted(settings.items()))))


def rows(trace: Trace, name: str, window: Window | None = None, **settings: str) -> list[dict[str, Any]]:
    return told(trace, name, window, **settings).table.rows(named=True)


class Memory(Building):
    """A trace of one thread, with events of memory; totals are kept by device, as the allocator does."""

    totals: bool = True
    addresses: bool = True
    held: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.event(MAIN, "ProfilerStep#1", 0, 1000, "step", step=1)
        self.event(stream(), "k", 0, 1000)
        self.facets["allocated"] = []

    def give(self, time: float, size: int, address: int, *, device: int = 0, reserved: int = 900, on: int = 1) -> None:
        """Memory that is given, or taken back where `size` is below 0."""
        self.held[device] = self.held.get(device, 0) + size
        self.facets["allocated"].append(
            {
                "record": len(self.facets["allocated"]),
                "time": round(time * US),
                "device": device,
                "bytes": size,
                "address": address if self.addresses else None,
                "allocated": self.held[device] if self.totals else None,
                "reserved": reserved if self.totals else None,
                "thread": on,
            }
        )

    def trace(self) -> Trace:
        part = self.part()
        threads = part.lanes["rank"].is_null()
        lanes = part.lanes.with_columns(thread=threads.replace_strict({True: "1", False: None}))
        return merge_file_frames(self.name, [part.with_frames(lanes=lanes)])


def test_the_peak_and_what_is_held_then() -> None:
    m = Memory(facts=listing(GPU))
    m.held[0] = 100  # from before
    m.give(10, 300, 1)
    m.give(20, 200, 2)
    m.give(30, -300, 1)
    m.give(40, 50, 3, reserved=950)
    m.give(50, -100, 9)
    m.give(60, 8, 7, device=-1, reserved=0)
    device, host = rows(m.trace(), "memory")
    assert (device["device"], device["peak"], device["at"], device["peak_share"]) == ("GPU 0", 600, 20 * US, 0.6)
    assert (device["reserved"], device["unused"], device["most_reserved"], device["most_unused"]) == (
        900,
        300,
        950,
        650,
    )
    assert (device["blocks"], device["since_before"]) == (3, 0)
    assert (device["allocations"], device["never_freed"], device["never_freed_blocks"]) == (3, 250, 2)
    assert (host["device"], host["peak"], host["peak_share"], host["capacity"]) == ("CPU", 8, None, None)


def test_blocks_from_given_to_taken_back() -> None:
    m = Memory()
    m.held[0] = 100
    m.event(MAIN, "aten::mm", 5, 15, "op")
    m.event(MAIN, "aten::empty", 8, 12, "op")
    m.give(10, 300, 1)
    m.give(20, 200, 2)
    m.give(30, -300, 1)
    m.give(40, 50, 1)
    m.give(50, -100, 9)
    found = [
        (b["operator"], b["size"], b["start"], b["duration"], b["at_peak"], b["freed"])
        for b in rows(m.trace(), "memory_blocks")
    ]
    assert found == [
        ("aten::empty", 300, 10 * US, 20 * US, True, True),
        (None, 200, 20 * US, None, True, False),
        (None, 100, None, None, True, True),
        (None, 50, 40 * US, None, False, False),
    ]
    assert [b["size"] for b in rows(m.trace(), "memory_blocks", of="peak")] == [300, 200, 100]
    assert [b["size"] for b in rows(m.trace(), "memory_blocks", of="kept")] == [200, 50]
    assert [b["size"] for b in rows(m.trace(), "memory_blocks", Window(35 * US, 45 * US))] == [200, 100, 50]


def test_operators_with_what_they_call() -> None:
    m = Memory()
    m.event(MAIN, "aten::linear", 0, 100, "op")
    m.event(MAIN, "aten::linear", 10, 60, "op")
    m.event(MAIN, "aten::mm", 20, 50, "op")
    m.event(MAIN, "model.py(3): forward", 25, 45, "python")
    m.give(30, 100, 1)
    m.give(55, 10, 2)
    m.give(70, -100, 1)
    m.give(80, 7, 3, on=2)
    m.give(200, 5, 4)
    found = {row["operator"]: tuple(row[name] for name in OF_OPERATORS) for row in rows(m.trace(), "memory_operators")}
    assert found == {
        "aten::mm": (1, 100, 100, 1, 1, 100, 100),
        "aten::linear": (2, 10, -90, 2, 1, 110, 10),
        None: (0, 12, 12, 2, 2, 12, 12),
    }


OF_OPERATORS = (
    "count", "size_increase", "self_size_increase", "allocations", "self_allocations", "allocation_size",
    "self_allocation_size",
)  # fmt: skip


def test_files_without_totals_and_addresses() -> None:
    m = Memory(totals=False, addresses=False)
    m.give(10, 300, 1)
    m.give(20, -300, 1)
    m.give(30, -50, 1)
    result = told(m.trace(), "memory")
    (found,) = result.table.rows(named=True)
    assert (found["peak"], found["reserved"], found["blocks"], found["since_before"]) == (300, None, None, None)
    assert any("no totals" in note for note in note_texts(result.notes))
    assert any("no addresses" in note for note in note_texts(result.notes))
    assert "no addresses" in note_texts(told(m.trace(), "memory_blocks").notes)[0]


def test_of_devices_that_alone_lack_totals_the_name_is_told() -> None:
    m = Memory()
    m.give(10, 300, 1)
    m.totals = False
    m.give(20, 300, 2, device=-1)
    notes = note_texts(told(m.trace(), "memory").notes)
    assert [note.partition(":")[0] for note in notes if "no " in note] == ["no totals of CPU in this file"]


def test_a_peak_beyond_the_device_is_not_believed_and_one_near_it_is_noted() -> None:
    for size, share, words in (
        (5000, None, "implausible: the peak of GPU 0 of rank 0 is above its memory"),
        (950, 0.95, "nearly full"),
    ):
        m = Memory(facts=listing(GPU))
        m.give(10, size, 1)
        result = told(m.trace(), "memory")
        assert result.table["peak_share"].to_list() == [share]
        assert words in note_texts(result.notes)[0]


def test_the_curve_has_the_most_of_every_stretch() -> None:
    m = Memory()
    m.give(0, 100, 1)
    m.give(0.5, 300, 2)
    m.give(0.9, -300, 2)
    m.give(999, 50, 3)
    found = [(r["start"], r["allocated"], r["changes"]) for r in rows(m.trace(), "memory_curve")]
    assert found[0] == (0, 400, 3)
    assert found[1][1:] == (100, 0)
    assert found[2][1:] == (150, 1)
    assert sum(r["duration"] for r in rows(m.trace(), "memory_curve")) == 999 * US


def test_the_curve_says_that_each_of_its_columns_is_the_most_of_a_stretch() -> None:
    m = Memory()
    m.give(0, 100, 1)
    found = told(m.trace(), "memory_curve")
    assert all("in the interval" in found.column(name).meaning for name in ("allocated", "reserved", "unused"))
    assert note("memory_levels_are_maxima") in found.notes


def test_what_is_held_as_a_stretch_begins_counts_in_it() -> None:
    """Unused is most after the release, and still as the next stretch begins; between them nothing changes."""
    m = Memory()
    m.give(0, 100, 1, reserved=120)
    m.give(500.5, -100, 1, reserved=120)
    m.give(1000, 10, 2, reserved=120)
    found = [
        (r["start"] / US, r["duration"] / US, r["allocated"], r["reserved"], r["unused"], r["changes"])
        for r in rows(m.trace(), "memory_curve")
    ]
    size = 1.000001  # us: a thousand of them have the last change in them
    assert found == [
        (0, pytest.approx(size), 100, 120, 20, 1),
        (pytest.approx(size), pytest.approx(499 * size), 100, 120, 20, 0),
        (pytest.approx(500 * size), pytest.approx(size), 100, 120, 120, 1),
        (pytest.approx(501 * size), pytest.approx(498 * size), 0, 120, 120, 0),
        (pytest.approx(999 * size), pytest.approx(1000 - 999 * size), 10, 120, 120, 1),
    ]


Level = tuple[int, int, int]
"""Allocated, reserved, unused."""


def stretches(states: list[tuple[int, Level, int]], low: int, high: int, number: int) -> list[tuple[Any, ...]]:
    """The rows of a curve by a loop over its stretches: start, duration, what was held at most, changes.

    `states` are when what is held is known, what it is, and how many changes that was.
    """
    size = max(1, -(-(high - low + 1) // number))
    found: list[tuple[Any, ...]] = []
    quiet = False
    for begins in range(low, high + 1, size):
        inside = [state for state in states if begins <= state[0] < begins + size]
        before = [state for state in states if state[0] < begins][-1:]
        if not before and not inside:
            continue
        most = tuple(map(max, zip(*(level for _, level, _ in [*before, *inside]), strict=True)))
        ends, changes = min(begins + size, high), sum(state[2] for state in inside)
        if quiet and not changes:
            found[-1] = (found[-1][0], ends - found[-1][0], *found[-1][2:])
        elif changes or ends > begins:
            found.append((begins, ends - begins, *most, changes))
        quiet = not changes
    return found


@given(
    st.lists(st.tuples(st.integers(0, 9), st.sampled_from([5, 7, -5, -7]), st.integers(0, 3)), min_size=1),
    st.integers(1, 9),
    st.none() | st.tuples(st.integers(0, 40), st.integers(1, 30)),
)
def test_the_curve_against_a_loop(
    events: list[tuple[int, int, int]], number: int, bounds: tuple[int, int] | None
) -> None:
    m, now, states = Memory(), 0, list[tuple[int, Level, int]]()
    m.held[0] = 10 * len(events)
    for wait, size, more in events:
        now += wait
        reserved = 10 * len(events) + 9 * more
        m.give(now, size, 1, reserved=reserved)
        states.append((now * US, (m.held[0], reserved, max(reserved - m.held[0], 0)), 1))
    if events[0][1] < 0:  # what it takes back was held before
        time, (held, reserved, _), _ = states[0]
        states.insert(0, (time, (held - events[0][1], reserved, max(reserved - held + events[0][1], 0)), 0))
    low, high, window = states[0][0], states[-1][0], None
    if bounds is not None:
        low, high = bounds[0] * US, sum(bounds) * US
        window = Window(low, high)
        begun = [(low, level, 0) for time, level, _ in states if time < low][-1:]
        states = begun + [state for state in states if low <= state[0] <= high]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory_curve, "MOST_INTERVALS", number)
        found = [
            tuple(row[name] for name in ("start", "duration", "allocated", "reserved", "unused", "changes"))
            for row in rows(m.trace(), "memory_curve", window)
        ]
    assert found == stretches(states, low, high, number)


def test_a_device_of_no_rank_is_that_of_the_first_rank_of_its_file() -> None:
    m = Memory()
    m.event(stream(1), "k", 0, 5)
    m.give(10, 300, 1, device=0)
    m.give(20, 200, 2, device=1)
    m.give(30, 100, 3, device=5)
    found = [(row["rank"], row["device"]) for row in rows(m.trace(), "memory")]
    assert found == [(0, "GPU 0"), (0, "GPU 5"), (1, "GPU 1")]


@pytest.mark.parametrize("name", first(1, ["memory", "memory_blocks", "memory_curve", "memory_operators"]))
def test_without_events_it_says_what_would_record_them(name: str) -> None:
    assert "profile_memory=True" in note_texts(told(Memory().trace(), name).notes)[0]


@pytest.mark.parametrize("name", ["memory", "memory_blocks", "memory_curve", "memory_operators"])
def test_sizes_that_cannot_be_do_not_raise(name: str) -> None:
    m = Memory(totals=False)
    for number, size in enumerate((2**62, -(2**62), 2**62, 0, 5)):
        m.give(number, size, -number)
    assert told(m.trace(), name).table.height


EVENTS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from([5, 7, -5, -7]), st.integers(1, 3), st.integers(-1, 1)))


@given(EVENTS)
def test_blocks_against_a_loop(events: list[tuple[int, int, int, int]]) -> None:
    m, now = Memory(), 0
    open_blocks: dict[tuple[int, int], tuple[int, int]] = {}
    expected: list[tuple[int, int | None, int | None]] = []
    for wait, size, address, device in events:
        now += wait + 1
        m.give(now, size, address, device=device)
        key = (device, address)
        given_then = open_blocks.pop(key, None)
        if given_then is not None:
            expected.append((*given_then, now))
        elif size < 0:
            expected.append((-size, None, now))
        if size > 0:
            open_blocks[key] = (size, now)
    expected += [(*block, None) for block in open_blocks.values()]
    trace = m.trace()
    found = [
        (
            b["size"],
            b["start"] and b["start"] // US,
            b["start"] and b["duration"] and (b["start"] + b["duration"]) // US,
        )
        for b in rows(trace, "memory_blocks")
    ]
    assert sorted(found, key=repr) == sorted(((s, b, d if b else None) for s, b, d in expected), key=repr)
    for row in rows(trace, "memory"):
        device = -1 if row["device"] == "CPU" else int(row["device"].split()[1])
        mine = [fact for fact in m.facets["allocated"] if fact["device"] == device]
        held = [(fact["time"], fact["allocated"]) for fact in mine]
        if mine[0]["bytes"] < 0:  # what it takes back was held before
            held.insert(0, (mine[0]["time"], mine[0]["allocated"] - mine[0]["bytes"]))
        assert (row["at"], row["peak"]) == max(held, key=lambda at: (at[1], -at[0]))
        assert row["allocations"] == sum(fact["bytes"] > 0 for fact in mine)


WINDOWS = st.tuples(st.integers(0, 40), st.integers(1, 30))


def levels(facts: list[dict[str, Any]], low: int, high: int, *, device: bool = True) -> list[tuple[int, int]]:
    """When what is held changes in a window, and to what; first what is held as it begins.

    Of a device that takes back before it gives, 0 was held before.
    """
    sums = [(fact["time"] // US, sum(each["bytes"] for each in facts[: row + 1])) for row, fact in enumerate(facts)]
    if device and facts and facts[0]["bytes"] < 0:
        sums.insert(0, (facts[0]["time"] // US, 0))
    before = [(low, level) for time, level in sums if time < low][-1:]
    return before + [(time, level) for time, level in sums if low <= time <= high]


@given(EVENTS, WINDOWS, st.sampled_from([True, False]))
def test_what_is_held_in_a_window_against_a_loop(
    events: list[tuple[int, int, int, int]], bounds: tuple[int, int], totals: object
) -> None:
    m, now, (low, high) = Memory(totals=bool(totals)), 0, (bounds[0], sum(bounds))
    for wait, size, address, device in events:
        now += wait + 1
        m.give(now, size, address, device=device)
        m.facets["allocated"][-1]["category"] = str(address)
    trace, window = m.trace(), Window(low * US, high * US)
    devices = {"CPU": -1, "GPU 0": 0, "GPU 1": 1}
    facts = {name: [fact for fact in m.facets["allocated"] if fact["device"] == n] for name, n in devices.items()}
    curves = {name: curve for name, mine in facts.items() if (curve := levels(mine, low, high))}
    peaks = {name: max(curve, key=lambda at: (at[1], -at[0])) for name, curve in curves.items()}
    memory = told(trace, "memory", window)
    assert {row["device"]: (row["at"] // US, row["peak"]) for row in memory.table.rows(named=True)} == peaks
    if events and not peaks:
        (only,) = note_texts(memory.notes)
        assert only == "no memory events in the window or before it: held memory is unknown"
    stretches = rows(trace, "memory_curve", window)
    for name in curves:
        mine = [row for row in stretches if row["device"] == name]
        assert max(row["allocated"] for row in mine) == peaks[name][1]
        assert sum(row["changes"] for row in mine) == sum(low <= fact["time"] // US <= high for fact in facts[name])
    kinds = {
        (name, category): levels([fact for fact in mine if fact["category"] == category], low, high, device=False)
        for name, mine in facts.items()
        for category in "123"
    }
    most = {key: max(level for _, level in curve) for key, curve in kinds.items() if curve}
    found = {(row["device"], row["category"]): row["most"] for row in rows(trace, "memory", window, by="category")}
    assert {key: value for key, value in found.items() if value} == {key: value for key, value in most.items() if value}


def test_a_category_that_held_nothing_as_the_window_began_held_nothing_at_most() -> None:
    m = Memory()
    for time, size in ((1, 7), (2, -7), (10, -5)):
        m.give(time, size, 1)
        m.facets["allocated"][-1]["category"] = "gradient"
    (row,) = rows(m.trace(), "memory", Window(10 * US, 12 * US), by="category")
    assert (row["most"], row["most_at"]) == (0, 10 * US)
    assert rows(m.trace(), "memory", Window(5 * US, 8 * US), by="category") == []


def test_a_block_that_is_held_as_the_window_begins_is_held_at_its_peak() -> None:
    m = Memory()
    m.give(0, 800, 1)
    m.give(10, 200, 2)
    m.give(20, -800, 1)
    (peak,) = rows(m.trace(), "memory", Window(5 * US, 9 * US))
    assert (peak["peak"], peak["at"], peak["blocks"], peak["allocations"]) == (800, 5 * US, 1, 0)
    held = rows(m.trace(), "memory_blocks", Window(5 * US, 25 * US), of="peak")
    assert [(block["size"], block["at_peak"]) for block in held] == [(800, True), (200, True)]
    (step,) = rows(m.trace(), "memory_curve", Window(5 * US, 9 * US))
    assert (step["start"], step["duration"], step["allocated"], step["changes"]) == (5 * US, 4 * US, 800, 0)


@pytest.mark.parametrize(
    ("before", "told_of"),
    [
        (0, ""),
        (
            40,
            (
                "the blocks held at the peak add up to 40 B below the peak: others are from before the "
                "recording (rank 0)"
            ),
        ),
        (
            -70,
            ("the blocks held at the peak add up to 70 B above the peak: its total leaves some of them out (rank 0)"),
        ),
    ],
)
def test_blocks_that_do_not_add_up_to_the_peak_are_told_of(before: int, told_of: str) -> None:
    m = Memory(facts=listing(GPU))
    m.held[0] = before
    m.give(10, 300, 1)
    m.give(20, 200, 2)
    m.give(30, -300, 1)
    expected = [told_of] if told_of else []
    assert list(note_texts(told(m.trace(), "memory_blocks").notes)) == expected
    assert list(note_texts(told(m.trace(), "memory_blocks", of="kept").notes)) == ["with of=kept"]


def test_each_device_keeps_its_largest_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracehound.analysis.memory_blocks.MOST_BLOCKS", 2)
    m = Memory()
    m.event(stream(1), "k", 0, 1000)
    for number in range(3):
        m.give(10 + number, 1000 + number, number)
        m.give(20 + number, 10 + number, number, device=1)
    shown = told(m.trace(), "memory_blocks")
    assert [(block["rank"], block["size"]) for block in shown.table.rows(named=True)] == [
        (0, 1002), (0, 1001), (1, 12), (1, 11),
    ]  # fmt: skip
    assert "2 smaller blocks left out" in note_texts(shown.notes)


def instant(time: int, size: int, address: int, held: int) -> dict[str, object]:
    """A memory event as PyTorch writes it."""
    said = {"Device Type": 1, "Device Id": 0, "Addr": address, "Bytes": size, "Total Allocated": held}
    args = {**said, "Total Reserved": 1000}
    return {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1, "ts": time, "args": args}


@pytest.mark.parametrize("name", first(2, ["memory", "memory_blocks", "memory_curve", "memory_operators"]))
def test_memory_before_the_first_event_and_after_the_last_is_in_the_trace(tmp_path: Path, name: str) -> None:
    events = [
        instant(100, 500, 1, 500),
        {"ph": "X", "cat": "cpu_op", "name": "aten::a", "pid": 1, "tid": 1, "ts": 150, "dur": 50, "args": {}},
        instant(160, 100, 2, 600),
        instant(300, -500, 1, 100),
        instant(310, -100, 2, 0),
    ]
    (tmp_path / "t.json").write_bytes(orjson.dumps({"schemaVersion": 1, "traceEvents": events}))
    trace = load_trace(open_trace_files([tmp_path / "t.json"]))
    assert trace.span == (0, 210 * US)
    whole = rows(trace, name)
    assert rows(trace, name, Window(start=0)) == rows(trace, name, Window(end=210 * US)) == whole
    if name == "memory":
        assert [(row["allocations"], row["never_freed"], row["peak"], row["at"]) for row in whole] == [
            (2, 0, 600, 60 * US)
        ]
    if name == "memory_blocks":
        assert [(row["size"], row["start"], row["duration"]) for row in whole] == [
            (500, 0, 200 * US),
            (100, 60 * US, 150 * US),
        ]
    if name == "memory_operators":
        assert {row["operator"]: row["size_increase"] for row in whole} == {None: -100, "aten::a": 100}
    if name == "memory_curve":
        late = rows(trace, name, Window(start=205 * US))
        assert (late[0]["start"], late[0]["allocated"], late[-1]["changes"]) == (205 * US, 100, 1)


def test_what_is_given_before_something_is_taken_back_in_the_same_instant_is_held_with_it() -> None:
    m = Memory()
    m.give(1, 100, 1)
    m.give(20, 50, 2)
    m.give(20, -100, 1)
    (memory,) = rows(m.trace(), "memory")
    assert (memory["peak"], memory["blocks"], memory["since_before"]) == (150, 2, 0)
    assert [block["at_peak"] for block in rows(m.trace(), "memory_blocks")] == [True, True]


def test_a_file_that_begins_with_a_release_held_that_before() -> None:
    m = Memory()
    m.held[0] = 600
    m.give(5, -500, 1)
    m.give(20, 50, 2)
    (memory,) = rows(m.trace(), "memory")
    assert (memory["peak"], memory["blocks"], memory["since_before"]) == (600, 1, 100)
    assert max(row["allocated"] for row in rows(m.trace(), "memory_curve")) == 600


def test_what_is_given_at_an_address_anew_or_taken_back_twice_is_no_two_blocks_at_once() -> None:
    m = Memory()
    m.give(5, 100, 1)
    m.give(20, 50, 1)
    m.give(30, -50, 1)
    m.give(40, -50, 1)
    (memory,) = rows(m.trace(), "memory")
    assert (memory["never_freed"], memory["never_freed_blocks"]) == (0, 0)
    assert sorted((b["size"], b["at_peak"]) for b in rows(m.trace(), "memory_blocks")) == [
        (50, False), (50, True), (100, False),
    ]  # fmt: skip


OPERATORS = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 30), st.integers(0, 20)), max_size=6
)  # of one thread, which may overlap only by nesting


def contains(one: tuple[str, int, int], other: tuple[str, int, int]) -> bool:
    """Whether an operator contains another, which comes no earlier; one without a length lasts a moment."""
    until, inner = (max(end, start + 0.5) for _, start, end in (one, other))
    return one[1] <= other[1] and inner <= until


@given(OPERATORS, st.lists(st.tuples(st.integers(0, 45), st.sampled_from([5, -5, 3])), min_size=1, max_size=8))
def test_operators_against_a_loop(operators: list[tuple[str, int, int]], events: list[tuple[int, int]]) -> None:
    kept: list[tuple[str, int, int]] = []
    for name, start, length in sorted(operators, key=lambda one: (one[1], -one[2])):
        end = start + length
        if all(e <= start or (s <= start and end <= e) for _, s, e in kept):
            kept.append((name, start, end))
    m = Memory()
    for name, start, end in kept:
        m.event(MAIN, name, start, end, "op")
    for number, (time, size) in enumerate(events):
        m.give(time, size, number)
    expected: dict[str | None, list[int]] = {}
    for time, size in events:
        running = [one for one in kept if one[1] <= time <= one[2]]
        around = [one[0] for one in kept if running and contains(one, running[-1])]
        for name in set(around) or {None}:
            sums = expected.setdefault(name, [0, 0, 0, 0])
            innermost = name == (around[-1] if around else None)
            sums[0] += size
            sums[1] += max(size, 0)
            sums[2] += size * innermost
            sums[3] += max(size, 0) * innermost
    names = ("size_increase", "allocation_size", "self_size_increase", "self_allocation_size")
    found = {row["operator"]: [row[name] for name in names] for row in rows(m.trace(), "memory_operators")}
    assert found == expected


def test_an_operator_that_ends_or_has_no_length_at_the_time_is_given_the_memory() -> None:
    m = Memory()
    for name, start, end in (("aten::batch_norm", 0, 30), ("aten::empty", 10, 10), ("aten::zeros", 20, 25)):
        m.event(MAIN, name, start, end, "op")
    for number, time in enumerate((10, 25, 26)):
        m.give(time, 100, number)
    found = {row["operator"]: row["self_allocations"] for row in rows(m.trace(), "memory_operators")}
    assert found == {"aten::batch_norm": 1, "aten::empty": 1, "aten::zeros": 1}
