from __future__ import annotations

import json
from decimal import Decimal
from itertools import product
from random import Random

import pytest

from growth import TOO_FAST, growth
from short import some
from tracehound.draw.notes import note_text
from tracehound.formats.json.array_repair import (
    LenientElements,
    RepairCounts,
    is_event_object,
    parse_leniently,
    read_elements_leniently,
)
from tracehound.formats.json.lenient_json import _PATH, _QUOTE_CLOSES, _STRING, repair_text
from tracehound.model.notes import Note

EVENTS = [
    {"ph": "X", "cat": "cpu_op", "name": f"op {n}", "ts": 1000 + n, "args": {"l": [{"name": "a"}, {"name": n}], "x": n}}
    if n % 3 else {"ph": "M", "name": "process_name", "pid": n, "args": {"name": 'q"\\ }, {"x'}}
    for n in range(12)
]  # fmt: skip
TAIL = b'\n], "traceName": "x.json", "more": [{"name": 1}]}'

LAYOUTS = {
    "compact": ([json.dumps(event, separators=(",", ":")) for event in EVENTS], ","),
    "plain": ([json.dumps(event) for event in EVENTS], ", "),
    "indented": ([json.dumps(event, indent=2) for event in EVENTS], ",\n  "),
    "sorted": ([json.dumps(event, sort_keys=True) for event in EVENTS], ",\n"),
}


def laid_out(layout: str) -> tuple[bytes, list[tuple[int, int]]]:
    """The inside of an array and the span of each event in it."""
    parts, separator = LAYOUTS[layout]
    spans, at = [], 0
    for part in parts:
        spans.append((at, at + len(part)))
        at += len(part) + len(separator)
    return separator.join(parts).encode(), spans


def walked(data: bytes) -> tuple[list[dict], dict[tuple[str, str], tuple[int, int]], LenientElements]:
    mends = RepairCounts()
    found = read_elements_leniently(data, len(data), 100, mends.add_repair, final=True)
    for event, (start, stop) in zip(found.events, found.spans, strict=True):
        try:
            again = parse_leniently(data[start:stop]).value
        except (ValueError, RecursionError):
            again = None
        assert (again if isinstance(again, dict) else None) == json.loads(json.dumps(event, default=float))
    return found.events, mends.counts, found


def in_windows(data: bytes, size: int) -> list[dict]:
    """The same as a reader does it that sees `size` bytes at a time, and more where an element needs more."""
    events, base, window = [], 0, size
    while True:
        final = base + window >= len(data)
        found = read_elements_leniently(
            data[base : base + window], size // 2, base, RepairCounts().add_repair, final=final
        )
        events += found.events
        if found.ended or (final and not found.events):
            return events
        window = size if found.events else 2 * window
        base += found.end


def one(args: str) -> bytes:
    """Three events; `args` are those of the second."""
    return f'{{"ph":"X","name":"a"}},\n{{"ph":"X","args":{args},"name":"b"}},\n{{"ph":"X","name":"c"}}]}}'.encode()


NOT_JSON = "values that are not valid JSON"


@pytest.mark.parametrize(
    ("args", "read", "kinds"),
    [
        ('{"x": NaN, "y": -Infinity}', {"x": None, "y": None}, [NOT_JSON]),
        ('{"x": N/A}', {"x": None}, [NOT_JSON]),
        ('{"x": -nan(ind), "y": [inf, +INF, 1.#QNAN]}', {"x": None, "y": [None] * 3}, [NOT_JSON]),
        ('{"nan": "nan, N/A"}', {"nan": "nan, N/A"}, []),
        ('{"nan": "nan, N/A", "x": nan}', {"nan": "nan, N/A", "x": None}, [NOT_JSON]),
        ('{"x": 1,}', {"x": 1}, ["trailing commas"]),
        ('{"x": [1, 2, ], }', {"x": [1, 2]}, ["trailing commas"]),
        ('{"x": "C:\\Users\\x"}', {"x": "C:\\Users\\x"}, ["stray backslashes"]),
        ('{"x": "C:\\new\\Users"}', {"x": "C:\\new\\Users"}, ["stray backslashes"]),
        ('{"x": "C:\\Users\\", "y": 1}', {"x": "C:\\Users\\", "y": 1}, ["stray backslashes"]),
        ('{"x": "C:\\temp\\"}', {"x": "C:\\temp\\"}, ["stray backslashes"]),
        ('{"x": "C:\\\\d", "y": "a\\d"}', {"x": "C:\\d", "y": "a\\d"}, ["stray backslashes"]),
        ('{"x": "a\nb\tc\x01"}', {"x": "a\nb\tc\x01"}, ["control characters"]),
        ('{"x": "say "no" now"}', {"x": 'say "no" now'}, ["unescaped quotes"]),
        ('{"x": "a\n"b" \\d", "y": nan,}', {"x": 'a\n"b" \\d', "y": None},
         ["stray backslashes", "control characters", "trailing commas", "unescaped quotes", NOT_JSON]),
        ('{"x": "a\\udc00b"}', {"x": "a\ufffdb"}, ["incomplete characters"]),
        ('{"x": 1, "x": 2}', {"x": 2}, []),
        ('{"x": 1, "x": NaN}', {"x": None}, [NOT_JSON]),
        ('{"x": ' + "9" * 30 + "}", {"x": int("9" * 30)}, []),
        ('{"x": 1.10, "y": 1712195495501688.123, "z": NaN}',
         {"x": Decimal("1.10"), "y": Decimal("1712195495501688.123"), "z": None}, [NOT_JSON]),
        ('{"x": ' + "9" * 5000 + "}", {"x": float("inf")}, []),
        ("{}", {}, []),
    ],
)  # fmt: skip
def test_what_writers_do_wrong_is_put_right_and_counted(args, read, kinds):
    events, counts, found = walked(one(args)) if "9" * 5000 not in args else counted(one(args))
    assert [event["name"] for event in events] == ["a", "b", "c"]
    assert events[1]["args"] == read
    assert found.ended
    assert len(counts) == len(kinds)
    for (level, code, _), (count, first) in counts.items():
        assert (level, count, first) == ("repaired", 1, 100 + found.spans[1][0])
        assert any(kind in note_text(Note("repaired", code)) for kind in kinds)


@pytest.mark.parametrize(
    "name",
    [
        '{"a":1}',
        '{"a": "b", "c": [1, "d"]}',
        '["a", "b"]',
        '{"a":"b"}',
        'f(x="1", y="2"), {"z": ""}',
        '{"": {"b":"}"}}',
    ],
)
@pytest.mark.parametrize("between", ["\n        ", " "])
def test_json_in_a_name_is_that_name(name, between):
    text = f'''{{"ph":"X","name":"a"}},
      {{
        "ph": "X", "cat": "user_annotation",{between}"name": "{name}",{between}"pid": 1, "tid": 1,
        "ts": 5.000, "dur": 2
        ,
        "args": {{
          "External id": 73,"Record function id": 0, "Ev Idx": 72
        }}
      }},
      {{"ph":"X","name":"c"}}]}}'''
    events, counts, found = walked(text.encode())
    assert [event["name"] for event in events] == ["a", name, "c"]
    assert (events[1]["ts"], events[1]["args"]["Ev Idx"]) == (5, 72)
    assert counts == {("repaired", "unescaped_quote", ()): (1, 100 + found.spans[1][0])}


def counted(data: bytes) -> tuple[list[dict], dict[tuple[str, str], tuple[int, int]], LenientElements]:
    mends = RepairCounts()
    found = read_elements_leniently(data, len(data), 100, mends.add_repair, final=True)
    return found.events, mends.counts, found


def test_bytes_that_are_no_utf8_are_replaced_and_counted():
    events, counts, found = walked(one('{"x": "a?b"}').replace(b"?", b"\xff\xfe"))
    assert events[1]["args"] == {"x": "a\ufffd\ufffdb"}
    assert counts == {("repaired", "bytes_not_utf8", ()): (1, 100 + found.spans[1][0])}


@pytest.mark.parametrize("element", ["null", "3", '"text"', "[1, [2]]", "[]", '[{"ph": "X"}]', "true"])
def test_elements_that_are_no_events_are_counted(element):
    events, counts, _ = walked(f'{{"ph":"X"}}, {element}, {{"ph":"i"}}, {element}]'.encode())
    assert events == [{"ph": "X"}, None, {"ph": "i"}, None]
    assert counts["dropped", "element_not_event", ()][0] == 2


def test_empty_events_have_a_place_and_are_no_damage():
    events, counts, found = walked(b'{"ph": "X"}, {}, {"ph": "i"}, {}, {}]}')
    assert events == [{"ph": "X"}, {}, {"ph": "i"}, {}, {}]
    assert (counts, found.ended) == ({}, True)


def test_a_repaired_event_beside_empty_ones():
    events, counts, _ = walked(b'{"ph": "X", "x": N/A}, {}, {"ph": "i", "x": 1,}, {}]}')
    assert events == [{"ph": "X", "x": None}, {}, {"ph": "i", "x": 1}, {}]
    assert [count for count, _ in counts.values()] == [1, 1]


DAMAGES = ("insert", "put", "delete", "cut")


@pytest.mark.parametrize(("layout", "damage"), some(product(LAYOUTS, DAMAGES), zip(LAYOUTS, DAMAGES, strict=True)))
def test_a_single_damage_costs_only_the_events_that_it_touches(layout, damage):
    sound, spans = laid_out(layout)
    random = Random(f"{layout} {damage}")
    edges = [edge + by for span in spans for edge in span for by in (-1, 0, 1)]
    places = {*random.sample(range(len(sound)), 150), *(at for at in edges if 0 <= at < len(sound) - 1)}
    for at in sorted(places):
        what = random.choice([b'"', b"{", b"}", b"[", b"]", b",", b":", b"\\", b"\0", b"\xff", b"x", b"7"])
        cut = {"insert": at, "put": at + 1, "delete": at + 1, "cut": len(sound)}[damage]
        data = sound[:at] + (what if damage in ("insert", "put") else b"") + sound[cut:] + TAIL * (damage != "cut")
        last = cut if damage != "insert" else at
        touched = [at < stop and start < last for start, stop in spans]
        untouched = [event for event, hit in zip(EVENTS, touched, strict=True) if not hit]
        events, counts, _ = walked(data)
        for found in (events, in_windows(data, 300), in_windows(data, 1 << 13)):
            left = [event for event in found if event]
            assert [event for event in left if event in untouched] == untouched, (at, what)
            assert len(left) <= len(untouched) + sum(touched), (at, what)
            if len(left) < len(EVENTS) and damage != "cut":
                assert counts, (at, what)


def test_what_is_beyond_repair_is_dropped():
    events, counts, _ = walked(one('{"x" 1}'))
    assert events == [{"ph": "X", "name": "a"}, None, {"ph": "X", "name": "c"}]
    assert list(counts) == [("dropped", "event_not_json", ())]


@pytest.mark.parametrize("rubbish", [bytes(5000), b"\xff" * 100, b"lorem ipsum " * 50, b'"' * 999, b"[" * 300])
def test_a_stretch_of_rubbish_is_dropped_and_reading_goes_on(rubbish):
    events, counts, _ = walked(b'{"ph":"X","name":"a"},' + rubbish + b',{"ph":"X","name":"z"}]}')
    assert [event["name"] for event in events if event] == ["a", "z"]
    assert counts == {("dropped", "bytes_not_json", ()): (1, 122)}


def test_a_last_event_beyond_repair_does_not_hide_the_end():
    data = b'{"ph":"X"}, {"ph":"X", "args": {"l": [{"a": 1}], "b" 3}}], "rank": {"n": 1}}'
    events, counts, found = walked(data)
    assert events == [{"ph": "X"}, None]
    assert found.ended
    assert data[found.end :] == b', "rank": {"n": 1}}'
    assert list(counts) == [("dropped", "event_not_json", ())]


def test_an_event_without_an_end_waits_for_more_bytes():
    data = b'{"ph":"X","name":"a"},{"ph":"X","name":"bbbb'
    waiting = read_elements_leniently(data, len(data), 0, RepairCounts().add_repair, final=False)
    assert (len(waiting.events), waiting.end, waiting.partial) == (1, 22, True)
    mends = RepairCounts()
    assert read_elements_leniently(data, len(data), 0, mends.add_repair, final=True).events == [
        {"ph": "X", "name": "a"},
        None,
    ]
    assert list(mends.counts) == [("dropped", "event_cut_off", ())]


def test_elements_behind_the_limit_are_left():
    found = read_elements_leniently(one("{}"), 30, 0, RepairCounts().add_repair, final=True)
    assert len(found.events) == 2
    assert not found.ended
    assert one("{}")[found.end :].startswith(b'{"ph":"X","name":"c"}')  # a strict decoder can go on there


def test_long_events_with_lists_of_what_looks_like_events():
    inner = [{"ph": "X", "name": f"inner {n}"} for n in range(400)]
    sound = [{"ph": "X", "args": {"l": inner}, "name": str(n)} for n in range(3)]
    data = json.dumps(sound)[1:].encode()
    assert walked(data)[0] == sound
    assert in_windows(data, 500) == sound
    assert in_windows(data, 9000) == sound


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'{"ph":', b'{"ph":"X","a":', b'[{"ph":'])
@pytest.mark.parametrize("depth", [900, 20_000])
def test_brackets_without_end_do_not_cost_the_rest(opening, depth):
    after = b',{"ph":"X","name":"beside"},{"ph":"X","name":"z"}]}'
    events, counts, _ = walked(b'{"ph":"X","name":"a"},' + opening * depth + after)
    named = [event for event in events if event and event.get("name", "beside") != "beside"]
    assert named == [{"ph": "X", "name": "a"}, {"ph": "X", "name": "z"}]
    assert counts


def test_an_event_looks_like_one():
    assert is_event_object('{"ph": "X"}', 0)
    assert is_event_object('x, {"args": {"ph": 1, "l": [{}]}, "x": N/A, "ph" : "X"}', 3)
    assert not is_event_object('{"name": "a"}, {"ph": "X"}', 0)
    assert not is_event_object('{"args": {"ph": "X"}}', 0)
    assert not is_event_object('{"name": N/A}, {"ph": "X"}', 0)


def test_quotes_that_never_close_are_looked_at_once() -> None:
    """Looking for the end from each of them anew takes minutes."""
    text = '{"a": NaN, "b": "' + 'x "y' * 100_000
    found = repair_text(text, _STRING, _QUOTE_CLOSES)
    assert found.text.startswith('{"a": null, "b": "x')
    assert found.text.endswith(text[-1000:])


@pytest.mark.parametrize("run", [" ", "\n", "} ", '\\"'])
@pytest.mark.parametrize("before", ["", ",", "]", '{"ph":"X","name":"a', '{"ph":"X","args":{"x":1'])
@pytest.mark.parametrize("behind", ["", "x"])
def test_long_runs_of_the_same_take_as_long_as_they_are(before: str, run: str, behind: str) -> None:
    event = '{"ph":"X","name":"a","ts":1}'

    def damaged(size: int) -> None:
        data = f"{event},{event}{before}{run * (size // len(run))}{behind}".encode()
        assert len(read_elements_leniently(data, len(data), 0, RepairCounts().add_repair, final=True).events) > 1

    assert growth(damaged) < TOO_FAST


def test_blanks_behind_a_backslash_and_quotes_that_never_close_take_as_long_as_they_are() -> None:
    assert growth(lambda size: repair_text('{"a":"C:\\"}' + " " * size + "x", _PATH, _QUOTE_CLOSES)) < TOO_FAST
    assert growth(lambda size: is_event_object("{" + '\\"' * (size // 2), 0)) < TOO_FAST
