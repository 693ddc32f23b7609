"""Whole files that were damaged: what is kept, what is invented, and what is said."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import redirect_stdout
from decimal import Decimal
from itertools import product
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from extremes import chrome
from short import first, some
from tracehound.cli.main import main
from tracehound.draw.notes import note_text
from tracehound.errors import TracehoundError
from tracehound.formats import KINETO, WorkerShard, detect_format, ignore_progress
from tracehound.formats.inflate import read_all
from tracehound.formats.json.array_window import ChunkSizes
from tracehound.formats.kineto.kineto_reader import build_file_frames, decode_shard
from tracehound.formats.spill import Spill
from tracehound.model.notes import Note
from tracehound.model.trace import FileFrames

BROKEN = [
    ("truncated_gzip.pt.trace.json.gz", 1331, ["gzip ends early", "cut off at the end", "events has no end"]),
    ("nan_infinity_args.pt.trace.json", 450, ["values that are not valid JSON"]),
    ("windows_unescaped_backslash.pt.trace.json", 450, ["stray backslashes"]),
    ("bare_list.json", 300, []),
    ("odd_field_types.pt.trace.json", 300,
     ["times stored as text", "args that are not an object", "names that are not", "negative dur", "without a dur"]),
    ("legacy_autograd_two_string_pids.json", 2, ["flow events"]),
    ("plain_json_named_gz.pt.trace.json.gz", 450, []),
    ("truncated.xplane.pb", 14_137, ["the file ends early", "events without names"]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "events", "words"), BROKEN, ids=[name for name, _, _ in BROKEN])
def test_every_broken_file_opens_and_health_says_what_is_wrong(shared, name, events, words):
    path = shared / "traces" / "broken" / name
    part = detect_format(path).read(path)
    assert part.events.height == events
    page = io.StringIO()
    with redirect_stdout(page):
        assert main(["report", str(path), "health"]) == 0
    said = " ".join(page.getvalue().split())
    for word in words or ["nothing to report"]:
        assert word in said


def test_all_broken_files_are_known(shared):
    there = {path.name for path in (shared / "traces" / "broken").iterdir()}
    assert there == {name for name, _, _ in BROKEN} | {"empty.pt.trace.json"}
    with pytest.raises(TracehoundError, match="the file is empty"):
        detect_format(shared / "traces" / "broken" / "empty.pt.trace.json")


T = 1_712_195_495_500_000
"""A time as Kineto writes it: microseconds since 1970, too many for a float to hold their nanoseconds."""

EVENTS = [
    {"ph": "X", "cat": "cpu_op", "name": f"aten::op{n}", "pid": 10, "tid": 10 + n % 2,
     "ts": T + 7 * n + 0.5, "dur": 3.5 + n,
     "args": {"External id": n, "Input Dims": [[n, 2], []], "l": [{"name": "a"}, {"name": n}], "path": "C:\\x\"}, {"}}
    if n % 4 else {"ph": "M", "name": "thread_name", "pid": 10, "tid": n, "ts": 1, "args": {"name": f"thread {n}"}}
    for n in range(16)
]  # fmt: skip
HEAD = {"schemaVersion": 1, "deviceProperties": [], "distributedInfo": {"rank": 0, "world_size": 2}}


def compact(event: dict) -> str:
    return json.dumps(event, separators=(",", ":"))


def kinetos_own(event: dict) -> str:
    """As libkineto prints an event: on several lines, args on lines of their own."""
    first = ", ".join(f'"{key}": {json.dumps(event[key])}' for key in event if key not in ("ts", "dur", "args"))
    times = ", ".join(f'"{key}": {json.dumps(event[key])}' for key in ("ts", "dur") if key in event)
    args = ",".join(f'"{key}": {json.dumps(value)}' for key, value in event["args"].items())
    return f'{{\n    {first},\n    {times},\n    "args": {{\n      {args}\n    }}\n  }}'


LAYOUTS: dict[str, tuple[Callable[[dict], str], str]] = {
    "compact": (compact, ","),
    "indented": (lambda event: json.dumps(event, indent=2), ",\n"),
    "kineto": (kinetos_own, ",\n  "),
    "sorted": (lambda event: json.dumps(event, sort_keys=True), ", "),
}


def laid_out(layout: str) -> tuple[bytes, list[tuple[int, int]]]:
    """A file and the bytes of each of its events."""
    write, separator = LAYOUTS[layout]
    text, spans = json.dumps(HEAD)[:-1] + ', "traceEvents": [', []
    for event in EVENTS:
        text += separator if spans else ""
        spans.append((len(text), len(text) + len(write(event))))
        text += write(event)
    return (text + '\n], "traceName": "x.json", "displayTimeUnit": "ms"}').encode(), spans


def nanoseconds(us: float) -> int:
    """What the text of a number of microseconds says."""
    return int(Decimal(repr(us)) * 1000)


def drawn(events: Iterable[dict]) -> Counter[tuple[str, int, int]]:
    """Name, start and length (ns) of the events that take time."""
    return Counter((e["name"], nanoseconds(e["ts"]), nanoseconds(e["dur"])) for e in events if e["ph"] == "X")


def found(part: FileFrames) -> Counter[tuple[str, int, int]]:
    """The same of a part."""
    rows = part.events.select(
        pl.col("name").cast(pl.String), pl.col("start") // 1000, (pl.col("end") - pl.col("start")) // 1000
    ).rows()
    return Counter((name, start + (part.wall_ns or 0), length) for name, start, length in rows)


def lost_and_invented(data: bytes, path: Path, touched: set[int]) -> tuple[Counter, int, FileFrames]:
    """Untouched events that are missing, and how many more there are than touched ones could be."""
    path.write_bytes(data)
    part = KINETO.read(path)
    sound = drawn(event for n, event in enumerate(EVENTS) if n not in touched)
    got = found(part)
    return sound - got, (got - sound).total() - len(touched), part


DAMAGES = st.one_of(
    st.tuples(st.just("insert"), st.sampled_from([*(bytes([c]) for c in b'"{}[],:\\\0\xff7')])),
    st.tuples(st.just("flip"), st.integers(0, 7).map(lambda bit: bytes([1 << bit]))),
    st.tuples(st.just("delete"), st.just(b"")),
    st.tuples(st.just("cut"), st.just(b"")),
)  # fmt: skip


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(sorted(LAYOUTS)), DAMAGES, st.floats(0, 1, exclude_max=True))
def test_a_single_damage_loses_only_the_events_that_it_touches(tmp_path, layout, damage, share):
    sound, spans = laid_out(layout)
    (kind, what), low, high = damage, spans[0][0], spans[-1][1]
    at = low + int(share * (high - low))
    if kind == "insert":
        data, last = sound[:at] + what + sound[at:], at
    elif kind == "flip":
        data, last = sound[:at] + bytes([sound[at] ^ what[0]]) + sound[at + 1 :], at + 1
    elif kind == "delete":
        data, last = sound[:at] + sound[at + 1 :], at + 1
    else:
        data, last = sound[:at], len(sound)
    touched = {n for n, (start, stop) in enumerate(spans) if at < stop and start < last}
    try:
        lost, invented, part = lost_and_invented(data, tmp_path / "t.json", touched)
    except TracehoundError:
        assert not drawn(event for n, event in enumerate(EVENTS) if n not in touched)
        return
    assert not lost
    assert invented <= 0
    if found(part) - drawn(EVENTS) == Counter() and found(part) != drawn(EVENTS):
        assert any(note.level in ("dropped", "repaired", "missing", "info") for note in part.notes)
    assert (part.events["end"] >= part.events["start"]).all()


@pytest.mark.parametrize(
    ("share", "members"), some(product((0.3, 0.5, 0.8, 0.99), (1, 5)), [(0.3, 1), (0.5, 5), (0.99, 5)])
)
def test_a_cut_gzip_keeps_every_event_that_zlib_can_give(tmp_path, members, share):
    filler = [{**EVENTS[1], "name": random.Random(n).randbytes(40).hex(), "ts": T + 10 * n} for n in range(3000)]
    text = json.dumps({**HEAD, "traceEvents": filler}).encode()
    size = -(-len(text) // members)
    data = b"".join(gzip.compress(text[at : at + size]) for at in range(0, len(text), size))
    path = tmp_path / "t.json.gz"
    path.write_bytes(data[: int(share * len(data))])
    part = KINETO.read(path)
    assert 0.97 * share * 3000 < part.events.height < 3000
    assert found(part) <= drawn(filler)
    said = [(note.level, note_text(note)) for note in part.notes]
    assert any(level == "dropped" and "gzip ends early" in text for level, text in said)
    assert ("repaired", "the array of events has no end") in said


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(1, 3), st.integers(0, 7), st.floats(0, 1, exclude_max=True))
def test_a_flip_in_a_gzip_keeps_every_event_before_it(tmp_path, members, bit, share):
    sound, spans = laid_out("kineto")
    size = -(-len(sound) // members)
    data = bytearray(b"".join(gzip.compress(sound[at : at + size]) for at in range(0, len(sound), size)))
    data[2 + int(share * (len(data) - 2))] ^= 1 << bit
    path = tmp_path / "t.json.gz"
    path.write_bytes(data)
    try:
        text, damage = read_all(path)
        part = KINETO.read(path)
    except TracehoundError as error:
        if re.search(
            "holds no trace events|gzip .*before any trace event|gzip .*no event could be read", str(error)
        ):  # the damage lies before them
            return
        raise
    good = len(os.path.commonprefix([text, sound]))
    if any("a day" in note_text(note) for note in part.notes):  # what was repeated from the damage has other times
        return
    assert drawn(event for event, (_, stop) in zip(EVENTS, spans, strict=True) if stop < good) <= found(part)
    assert text == sound or damage
    assert not damage or any(note.level == "dropped" and "gzip" in note_text(note) for note in part.notes)


def test_names_do_not_say_what_a_file_is(tmp_path):
    sound, _ = laid_out("kineto")
    for name, data in (("a.json.gz", sound), ("a.json", gzip.compress(sound)), ("a.txt", gzip.compress(sound))):
        (tmp_path / name).write_bytes(data)
        part = detect_format(tmp_path / name).read(tmp_path / name)
        assert found(part) == drawn(EVENTS)
        assert not part.notes


def test_what_follows_a_gzip_is_no_loss(tmp_path):
    sound, _ = laid_out("compact")
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(sound) + b"signature: none")
    part = KINETO.read(path)
    assert found(part) == drawn(EVENTS)
    assert ["is followed by bytes that are not gzip" in note_text(note) for note in part.notes] == [True]
    path.write_bytes(gzip.compress(sound) + bytes(600))
    assert not KINETO.read(path).notes


def test_a_bomb_and_endless_nesting_end_in_one_line(tmp_path, monkeypatch):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b'{"traceEvents": [' + b'{"ph":"X","name":"a","ts":1,"dur":2},' * 200_000 + b"]}"))
    monkeypatch.setenv("TRACEHOUND_MAX_INFLATED", "1M")
    with pytest.raises(
        TracehoundError, match=r"grows to more than 1,048,576 bytes when inflated; .* TRACEHOUND_MAX_INFLATED="
    ) as error:
        KINETO.read(path)
    assert "\n" not in str(error.value)
    monkeypatch.setenv("TRACEHOUND_MAX_INFLATED", "10M")
    assert KINETO.read(path).events.height == 200_000


@pytest.mark.parametrize("opening", ["[", '{"a":', '{"ph":"X","args":'])
def test_a_million_brackets_cost_what_they_are_part_of(tmp_path, opening):
    path = tmp_path / "a.json"
    with path.open("w") as file:
        file.write(json.dumps({**HEAD, "traceEvents": EVENTS[:8]})[:-2])
        file.write("," + opening * 1_000_000)
    part = KINETO.read(path)
    assert found(part) == drawn(EVENTS[:8])
    assert any("events nested too deeply" in note_text(note) for note in part.notes)


def test_a_string_without_an_end_costs_one_event(tmp_path):
    path = tmp_path / "a.json"
    text = json.dumps({**HEAD, "traceEvents": EVENTS[:8]})[:-2] + ', {"ph": "X", "name": "' + "endless " * 500_000
    path.write_text(text)
    part = KINETO.read(path)
    assert found(part) == drawn(EVENTS[:8])
    assert ("dropped", "event cut off at the end of the file") in [(note.level, note_text(note)) for note in part.notes]


def test_a_file_that_shrinks_or_grows_while_it_is_read(tmp_path):
    path = tmp_path / "a.json"
    many = [{**EVENTS[1], "ts": T + 10 * n} for n in range(20_000)]
    text = json.dumps({**HEAD, "traceEvents": many})

    def shrink(read: int, _: int) -> None:
        os.truncate(path, read + 100_000)

    path.write_text(text)
    part = KINETO.read(path, shrink)
    assert 0 < part.events.height < 20_000
    assert ("repaired", "the array of events has no end") in [(note.level, note_text(note)) for note in part.notes]

    def grow(_: int, __: int) -> None:
        with path.open("a") as file:
            file.write(" " * 1000)

    path.write_text(text)
    part = KINETO.read(path, grow)
    assert (part.events.height, part.notes) == (20_000, ())


def spelled(event: dict, **fields: object) -> str:
    """The event with fields in a spelling of our own, given as JSON text where they are strings."""
    rest = {key: value for key, value in event.items() if key not in fields}
    return ", ".join([json.dumps(rest)[:-1], *(f'"{key}": {value}' for key, value in fields.items())]) + "}"


@pytest.mark.parametrize(
    ("fields", "name", "said"),
    [
        ({"ts": '"1712195495501000.2"'}, "aten::op1", ["times stored as text, read as numbers"]),
        ({"args": "null"}, "aten::op1", ["args that are not an object, ignored"]),
        ({"args": "[1, 2]"}, "aten::op1", ["args that are not an object, ignored"]),
        ({"name": "null"}, "", ["names that are not text"]),
        ({"name": "7"}, "7", ["names that are not text"]),
        ({"pid": '"CUDA functions"'}, "aten::op1", []),
        ({"pid": str(2**63 + 5), "tid": str(2**70)}, "aten::op1", []),
        ({"args": '{"External id": 18446744073709551615, "correlation": -1}'}, "aten::op1", []),
        ({"name": '"a\\ud800b"'}, "a\ufffdb", ["incomplete characters (lone surrogates) in strings"]),
        ({"name": '"twice", "name": "once"'}, "once", []),
        ({"name": '"a\nb\x1b[2J"'}, "a\nb\x1b[2J", ["control characters in strings"]),
        ({"name": '"say "no" now"'}, 'say "no" now', ["unescaped quotes in strings"]),
        ({"name": '"D:\\a\\work"'}, "D:\\a\\work", ["stray backslashes"]),
        ({"name": '"D:\\a\\work\\"'}, "D:\\a\\work\\", ["stray backslashes"]),
        ({"args": '{"x": NaN, "y": [Infinity, -Infinity, N/A]}'}, "aten::op1",
         ["values that are not valid JSON (NaN, Infinity, N/A), read as null"]),
        ({"args": '{"x": N/A, "y": [-nan, inf]}'}, "aten::op1",
         ["values that are not valid JSON (NaN, Infinity, N/A), read as null"]),
        ({"args": '{"x": [1, 2,], }'}, "aten::op1", ["trailing commas"]),
    ],
)  # fmt: skip
def test_each_repair_keeps_the_event_and_is_counted_with_its_place(tmp_path, fields, name, said):
    event = {**EVENTS[1], "ts": T + 1000.25}
    text = f"{json.dumps({**HEAD, 'traceEvents': EVENTS})[:-2]}, {spelled(event, **fields)}, {{}}, {{}}]}}"
    path = tmp_path / "a.json"
    path.write_text(text)
    part = KINETO.read(path)
    assert found(part) == drawn([*EVENTS, {**event, "name": name}])
    notes = {note_text(note): note for note in part.notes if note.level == "repaired"}
    assert list(notes) == said
    start = text.rindex('{"ph": "X", "cat"') if "cat" in text else 0
    assert [(note.count, note.where) for note in notes.values()] == [(1, f"byte {start:,}")] * len(said)


@pytest.mark.parametrize(
    ("element", "said"),
    [
        ('{"ph": "X", "name": "a", "ts": 1, "dur": 2, "args" 3}', "events that are not valid JSON"),
        ("[1, 2, 3]", "array elements that are not events"),
        ("{}", "array elements without a phase"),
        ('{"name": null, "args": null}', "array elements without a phase"),
        ('{"ph": null, "name": null, "dur": null}', "array elements without a phase"),
        (
            '{"ph": "X", "name": null, "ts": null, "dur": 1}',
            "events without a valid time",
        ),
        (
            '{"ph": "X", "name": null, "ts": "soon", "dur": 1}',
            "events without a valid time",
        ),
        (
            '{"ph": "X", "name": "a", "ts": true, "dur": 1}',
            "events without a valid time",
        ),
        (
            '{"ph": "X", "cat": "cpu_op", "name": "a", "dur": 1}',
            "events without a valid time",
        ),
    ],
)
def test_what_is_left_out_is_counted_once(element: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps({**HEAD, "traceEvents": EVENTS})[:-2] + f", {element}, {json.dumps(EVENTS[1])}]}}")
    part = KINETO.read(path)
    assert found(part) == drawn([*EVENTS, EVENTS[1]])
    assert [(note_text(note), note.count) for note in part.notes if note.level in ("dropped", "repaired")] == [
        (said, 1)
    ]


@pytest.mark.parametrize("spelling", ["", ', "dur": null'])
def test_a_duration_that_is_missing_is_counted_in_every_portion(spelling: str, tmp_path: Path) -> None:
    event = {key: value for key, value in EVENTS[1].items() if key != "dur"}
    text = json.dumps(event)[:-1] + spelling + "}"
    path = tmp_path / "a.json"
    path.write_text(json.dumps({**HEAD, "traceEvents": EVENTS})[:-2] + f", {text}" * 500 + "]}")
    sizes = ChunkSizes(2000, 10_000)
    part = build_file_frames(
        path, [decode_shard(path, WorkerShard(n, 2), Spill(), ignore_progress, sizes) for n in range(2)], Spill()
    )
    notes = [(note_text(note), note.count, note.where) for note in part.notes if note.level == "repaired"]
    assert notes == [("complete events without a duration, read as 0", 500, f"event {len(EVENTS)}")]


@pytest.mark.parametrize("key", ["External id", "correlation"])
@pytest.mark.parametrize("number", [2**63, 2**64, 10**30])
def test_an_id_that_no_int64_holds_is_none_and_counted(key: str, number: int, tmp_path: Path) -> None:
    event = {**EVENTS[1], "args": {key: number}}
    path = tmp_path / "a.json"
    path.write_text(json.dumps({**HEAD, "traceEvents": [*EVENTS, event, event]}))
    part = KINETO.read(path)
    assert found(part) == drawn([*EVENTS, event, event])
    notes = [(note_text(note), note.count, note.where) for note in part.notes if note.level == "repaired"]
    assert notes == [("ids of more than 63 bits, ignored", 2, f"event {len(EVENTS)}")]


@pytest.mark.parametrize("count", [6, 2000])
@pytest.mark.parametrize(
    ("between", "said"),
    [
        ("", "missing commas between events"),
        ("\n", "missing commas between events"),
        (",,", "repeated commas between events"),
        (", ,\n,", "repeated commas between events"),
    ],
)
def test_commas_that_lack_or_are_too_many_are_counted(between: str, said: str, count: int, tmp_path: Path) -> None:
    first, rest = (",".join(map(one, part)) for part in (range(count // 2), range(count // 2, count)))
    path = tmp_path / "a.json"
    path.write_text(f'{{"traceEvents": [{first}{between}{rest}]}}')
    assert [(note_text(each), each.count, each.where) for each in notes_of(path, count)] == [
        (said, 1, f"byte {path.read_text().index(between + rest):,}")
    ]


@pytest.mark.parametrize(
    ("comma", "count"), some(product((",", " ,\n", ",,"), (6, 20_000)), [(",", 20_000), (" ,\n", 6), (",,", 6)])
)
def test_a_comma_behind_the_last_event_is_counted(comma: str, count: int, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(f'{{"traceEvents": [{",".join(map(one, range(count)))}{comma}]}}')
    assert [(note_text(each), each.count) for each in notes_of(path, count)] == [("trailing commas", 1)]


@pytest.mark.parametrize("inner", ["[]", "[1]", '["x", {"y": 2}]'])
@pytest.mark.parametrize("indent", [None, 1])
def test_the_array_is_that_of_the_document_not_one_inside_its_facts(
    inner: str, indent: int | None, tmp_path: Path
) -> None:
    path = tmp_path / "a.json"
    facts = {"note": 'of "traceEvents": [ {', "meta": {"x": {"traceEvents": json.loads(inner)}}}
    path.write_text(json.dumps({**facts, **HEAD, "traceEvents": EVENTS}, indent=indent))
    part = KINETO.read(path)
    assert found(part) == drawn(EVENTS)
    assert not [note for note in part.notes if note.level in ("dropped", "repaired")]


@pytest.mark.parametrize("indent", [None, 1])
def test_an_array_of_events_inside_something_else_is_found(indent: int | None, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"result": {"of": {**HEAD, "traceEvents": EVENTS}}}, indent=indent))
    assert found(KINETO.read(path)) == drawn(EVENTS)


def notes_of(path: Path, events: int) -> list[Note]:
    """What reading a file repaired or dropped of so many events of `one`, none of which is lost."""
    part = KINETO.read(path)
    assert part.events["name"].cast(pl.String).to_list() == [f"k{number}" for number in range(events)]
    return [note for note in part.notes if note.level in ("dropped", "repaired")]


def test_repairs_of_the_facts_around_the_events_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    events = json.dumps(EVENTS)
    path.write_text(f'{{"schemaVersion": 1, "x": NaN, "traceEvents": {events}, "distributedInfo": {{"rank": 3,}}}}')
    at = path.read_text().index(', "distributedInfo')
    part = KINETO.read(path)
    assert part.ranks["rank"].to_list() == [3]
    assert [(note.level, note_text(note), note.where) for note in part.notes if note.level != "info"] == [
        (
            "repaired",
            "metadata beside the events: values that are not valid JSON (NaN, Infinity, N/A), read as null",
            "byte 0",
        ),
        ("repaired", "metadata beside the events: trailing commas", f"byte {at:,}"),
    ]


def test_what_is_behind_the_events_and_no_json_is_noted(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps({**HEAD, "traceEvents": EVENTS}) + "\0\0\0\0 and more")
    notes = [(note.level, note_text(note)) for note in KINETO.read(path).notes if note.level != "info"]
    assert notes == [("dropped", "bytes after the array of events that are not valid JSON")]


@pytest.mark.parametrize("pack", [lambda text: text.encode(), lambda text: gzip.compress(text.encode())])
@pytest.mark.parametrize("second", [{**HEAD, "traceEvents": EVENTS}, {"traceEvents": EVENTS}, EVENTS])
def test_another_recording_behind_the_first_is_told_of(
    second: object, pack: Callable[[str], bytes], tmp_path: Path
) -> None:
    path, one, other = tmp_path / "a.json", json.dumps({"traceEvents": EVENTS, **HEAD}) + "\n", json.dumps(second)
    path.write_bytes(pack(one))
    alone = detect_format(path).read(path)
    path.write_bytes(pack(one) + pack(other))
    joined = detect_format(path).read(path)
    assert (found(joined), joined.facts) == (found(alone), alone.facts)
    (note,) = set(joined.notes) - set(alone.notes)
    assert (note.level, note.count, note.where) == ("dropped", 1, f"byte {len(one):,}")
    told = f"a second recording of {len(other):,} bytes follows in the file: split the file and open both"
    assert note_text(note) == told


def test_another_profile_of_xla_behind_the_first_is_told_of(tmp_path: Path) -> None:
    """Its events end with an empty one, and nothing of the document follows them."""
    path, document = tmp_path / "vm.trace.json", chrome()
    one = json.dumps({"displayTimeUnit": "ns", "traceEvents": [*document["traceEvents"], {}]})
    path.write_text(one)
    alone = detect_format(path).read(path)
    path.write_text(one + one)
    joined = detect_format(path).read(path)
    assert joined.events.equals(alone.events)
    assert [note_text(note) for note in set(joined.notes) - set(alone.notes)] == [
        f"a second recording of {len(one):,} bytes follows in the file: split the file and open both"
    ]


@pytest.mark.parametrize("between", ["", "\n"])
def test_zeros_at_the_end_of_a_file_are_left_out(between: str, tmp_path: Path) -> None:
    path, text = tmp_path / "a.json", json.dumps({"traceEvents": EVENTS, **HEAD})
    path.write_text(text)
    sound = KINETO.read(path)
    path.write_text(f"{text}{between}\0\0\0{between}")
    part = KINETO.read(path)
    assert part.facts == sound.facts
    told = Note("repaired", "zeros_at_end", where=f"byte {len(text):,}")
    assert set(part.notes) - set(sound.notes) == {told}


@pytest.mark.parametrize("first", ["\0", "x", " ", "\udcff", "}", '"'])
@pytest.mark.parametrize("name", ["plain_json_named_gz.pt.trace.json.gz", "bare_list.json"])
def test_a_file_whose_first_byte_is_damaged(first: str, name: str, shared: Path, tmp_path: Path) -> None:
    real = shared / "traces" / "broken" / name
    path = tmp_path / "a.json"
    path.write_bytes(first.encode("utf-8", "surrogateescape") + real.read_bytes()[1:])
    part, sound = detect_format(path).read(path), detect_format(real).read(real)
    assert found(part) == found(sound)
    assert part.facts == sound.facts
    assert [note for note in part.notes if note.level == "repaired" and note.where == "byte 0"]


def test_a_page_that_holds_a_trace_is_none(shared: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"<script>" + (shared / "traces" / "broken" / "bare_list.json").read_bytes())
    with pytest.raises(TracehoundError, match="not a trace"):
        detect_format(path)


def test_a_name_that_is_no_utf8_is_replaced_and_counted(tmp_path):
    data = json.dumps({**HEAD, "traceEvents": EVENTS}).encode()
    path = tmp_path / "a.json"
    path.write_bytes(data.replace(b"aten::op5", b"aten\xff::op5").replace(b"aten::op7", b"a\xc3::op7"))
    part = KINETO.read(path)
    assert part.events.height == drawn(EVENTS).total()
    names = set(part.events["name"].cast(pl.String))
    assert {"aten\ufffd::op5", "a\ufffd::op7"} < names
    (note,) = (note for note in part.notes if note.level == "repaired")
    assert (note_text(note), note.count) == ("bytes that are not UTF-8", 2)
    assert note.where == f"byte {data.rindex(b'{', 0, data.index(b'aten::op5')):,}"


def test_bytes_that_are_no_utf8_in_what_is_not_read_are_replaced_when_looked_at(tmp_path):
    data = json.dumps({**HEAD, "traceEvents": EVENTS}).encode()
    path = tmp_path / "a.json"
    path.write_bytes(data.replace(b"C:", b"\xff:", 1))
    part = KINETO.read(path)
    assert found(part) == drawn(EVENTS)
    assert KINETO.reader.args(part, 1)["args"]["path"] == '\ufffd:\\x"}, {'
    assert [(note.level, note_text(note), note.where) for note in part.notes] == [
        ("repaired", "bytes that are not UTF-8", f"byte {data.index(b'C:'):,}")
    ]


@pytest.mark.parametrize(
    ("kind", "begin"),
    some(product(("insert", "flip", "delete"), range(1, 13)), [("insert", 1), ("flip", 6), ("delete", 10)]),
)
def test_damage_before_the_array_loses_no_event(tmp_path: Path, kind: str, begin: int) -> None:
    sound, spans = laid_out("kineto")
    for at in range(begin, spans[0][0], 12):
        new = {"insert": b'"' + sound[at : at + 1], "flip": bytes([sound[at] ^ 1]), "delete": b""}[kind]
        lost, invented, _ = lost_and_invented(sound[:at] + new + sound[at + 1 :], tmp_path / "t.json", set())
        assert not lost, (at, sound[at - 10 : at + 10])
        assert invented <= 0


@pytest.mark.parametrize(("layout", "seed"), some(product(sorted(LAYOUTS), range(6)), [("kineto", 0)]))
def test_a_single_damage_in_a_file_of_many_slices_loses_only_what_it_touches(
    tmp_path: Path, layout: str, seed: int
) -> None:
    write, separator = LAYOUTS[layout]
    many = [{**EVENTS[n % 16], "ts": T + 50 * n} for n in range(6000)]
    text, spans = json.dumps(HEAD)[:-1] + ', "traceEvents": [', []
    parts = [text]
    at = len(text)
    for event in many:
        piece = write(event)
        spans.append((at, at + len(piece)))
        parts += [piece, separator]
        at += len(piece) + len(separator)
    sound = ("".join(parts[:-1]) + '\n], "traceName": "x.json"}').encode()
    path, dice = tmp_path / "t.json", random.Random(f"{layout} {seed}")
    assert len(sound) > 3 * 512 * 1024 / 2
    for _ in range(4):
        at = dice.choice([dice.randrange(spans[0][0], spans[-1][1]), dice.choice(spans)[dice.randrange(2)]])
        what = dice.choice([bytes([c]) for c in b'"{}[],:\\\0\xff7'])
        kind = dice.choice(["insert", "put", "delete", "cut"])
        last = {"insert": at, "put": at + 1, "delete": at + 1, "cut": len(sound)}[kind]
        data = sound[:at] + (what if kind in ("insert", "put") else b"") + sound[last:]
        path.write_bytes(data)
        part = KINETO.read(path)
        untouched = drawn(e for e, (start, stop) in zip(many, spans, strict=True) if not (at < stop and start < last))
        got = found(part)
        assert not untouched - got, (layout, kind, at, what)
        assert (got - untouched).total() <= 1, (layout, kind, at, what)


@pytest.mark.parametrize("begin", first(1, range(1, 22)))
def test_nothing_is_behind_events_that_are_cut(tmp_path: Path, begin: int) -> None:
    """Wherever the file ends inside the last event."""
    text = json.dumps({**HEAD, "traceEvents": EVENTS})
    path = tmp_path / "a.json"
    for end in range(text.rindex('{"ph"') + begin, text.rindex("]"), 21):
        path.write_text(text[:end])
        said = [note_text(note) for note in KINETO.read(path).notes]
        assert said
        assert not [words for words in said if "behind" in words], text[end - 20 : end]


def one(number: int) -> str:
    return json.dumps(
        {"ph": "X", "cat": "kernel", "name": f"k{number}", "pid": 0, "tid": 7, "ts": 10 * number, "dur": 5}
    )


@pytest.mark.parametrize("count", [6, 2000])
@pytest.mark.parametrize("torn", ["2, 3]}}", "]}", '"x": [{"flow": 3}]}}', "]}]}"])
def test_brackets_that_a_hole_left_end_nothing(tmp_path: Path, torn: str, count: int) -> None:
    """An event whose beginning is lost leaves the end of a list, and then of objects: as the array's end looks."""
    events = [one(number) for number in range(count)]
    events[count // 2] = torn
    path = tmp_path / "trace.json"
    path.write_text('{"traceEvents": [' + ",\n".join(events) + '\n], "distributedInfo": {"rank": 3}}')
    part = KINETO.read(path)
    assert part.events["name"].cast(pl.String).to_list() == [f"k{n}" for n in range(count) if n != count // 2]
    assert part.ranks["rank"].to_list() == [3]
    assert any(note.level in ("dropped", "repaired") for note in part.notes)


@pytest.mark.parametrize(
    ("between", "events", "said"),
    [
        (
            "]}\n{",
            1,
            ("dropped", "a second recording of 186 bytes follows in the file: split the file and open both", 1),
        ),
        ("], ", 1, ("dropped", "events in a second array of that name", 2)),
    ],
    ids=["one after the other", "of one object"],
)
def test_two_arrays_of_events_in_a_file(tmp_path: Path, between: str, events: int, said: tuple[str, str, int]) -> None:
    path = tmp_path / "trace.json"
    path.write_text(f'{{"traceEvents": [{one(0)}{between}"traceEvents": [{one(1)}, {one(2)}]}}\n')
    part = KINETO.read(path)
    assert part.events.height == events
    assert said in [(note.level, note_text(note), note.count) for note in part.notes]
