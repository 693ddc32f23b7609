"""A big PyTorch trace made of a real one: its events again and again, each time later.

    python tests/benchmarks/grow_kineto.py SOURCE TARGET SIZE          SIZE such as 100M or 1G; .gz by the names

Every copy is the source's own text, so that its layout is the profiler's; only numbers differ. Times move by the length
of the trace; the ids that tie events together (correlation, External id, flow id, Ev Idx, Python id, Sequence number)
and the numbers of steps move past those of the copy before, so that each copy is linked within itself as the source is.
What a file has once (names of processes and threads, the profiler's own marks) is written once.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import TextIOWrapper
from itertools import chain
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from measure import size_of, size_text

_NUMBER = re.compile(
    r'("(?P<time>ts)"|"(?:correlation|External id|id|Ev Idx|Python id|Python parent id|Sequence number)")'
    r"\s*:\s*(?P<number>\d+)|ProfilerStep#(?P<step>\d+)"
)
"""Numbers that a copy changes. A quote inside a string is escaped, so none of these keys is ever found in one."""

_START = re.compile(r'"traceEvents"\s*:\s*\[|\A\s*\[')
_GAP_US = 1000


@dataclass(frozen=True)
class Grown:
    """What was written."""

    size: int
    events: int
    copies: int


@dataclass(frozen=True)
class _Text:
    """Events as text with holes: `pieces` around `numbers`; in each copy a number grows by its `steps`."""

    pieces: list[str]
    numbers: npt.NDArray[np.int64]
    steps: npt.NDArray[np.int64]

    def copy(self, number: int) -> str:
        moved = map(str, (self.numbers + number * self.steps).tolist())
        return "".join(chain.from_iterable(zip(self.pieces, moved, strict=False))) + self.pieces[-1]


def grow(source: Path, target: Path, size: int) -> Grown:
    """Write as many copies as come nearest to `size` bytes of JSON (at least one). Raises ValueError for no events."""
    with _opened(source, "r") as file:
        text = file.read()
    start = _START.search(text)
    if start is None:
        raise ValueError(f"{source} has no events")
    spans = list(_spans(text, start.end()))
    end = spans[-1][1]
    again = [(low, high, event) for low, high, event in spans if _repeats(event)]
    body = _text(",".join(_with_space(text, low, high) for low, high, _ in again), [event for *_, event in again])
    copies = 1 + max(0, round((size - len(text)) / len(body.copy(1))))
    written = 0
    with _opened(target, "w") as out:
        for piece in chain([text[:end]], ("," + body.copy(k) for k in range(1, copies)), [text[end:]]):
            written += out.write(piece)
    return Grown(written, len(spans) + (copies - 1) * len(again), copies)


def _spans(text: str, at: int) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Start and end of every event in the array that begins at `at`, and the event."""
    decoder, separator = json.JSONDecoder(strict=False), re.compile(r"[\s,]*")
    while True:
        space = separator.match(text, at)
        low = space.end() if space else at
        if text[low : low + 1] != "{":
            return
        event, at = decoder.raw_decode(text, low)
        yield low, at, event


def _repeats(event: dict[str, Any]) -> bool:
    """Whether a copy has it: metadata, and the profiler's marks of its own beginning and end, stand once."""
    own = event.get("cat") == "Trace" or event.get("name", "").startswith(("Record Window End", "Iteration Start"))
    return event.get("ph") != "M" and not own


def _with_space(text: str, low: int, high: int) -> str:
    """The event with the white space before it."""
    while text[low - 1].isspace():
        low -= 1
    return text[low:high]


def _text(text: str, events: list[dict[str, Any]]) -> _Text:
    """Find the numbers, and how far each must move so that no two copies meet."""
    pieces, numbers, kinds, at = [], [], [], 0
    for match in _NUMBER.finditer(text):
        kind = "time" if match["time"] else "step" if match["step"] else "number"
        group = "number" if kind == "time" else kind
        pieces.append(text[at : match.start(group)])
        numbers.append(int(match[group]))
        kinds.append(kind)
        at = match.end(group)
    first = min(float(event["ts"]) for event in events)
    last = max(float(event["ts"]) + float(event.get("dur", 0)) for event in events)
    which, value = np.array(kinds), np.array(numbers, np.int64)
    ids, marks = value[which == "number"], value[which == "step"]
    further = {
        "time": int(last - first) + _GAP_US,
        "number": int(ids.max(initial=0)) + 1,
        "step": int(marks.max(initial=0) - marks.min(initial=2**31)) + 1,
    }
    return _Text([*pieces, text[at:]], value, np.array([further[name] for name in kinds], np.int64))


@contextmanager
def _opened(path: Path, mode: str) -> Iterator[IO[str]]:
    """The file as text, line ends as they are; packed where its name says so."""
    if path.suffix == ".gz":
        with gzip.GzipFile(path, mode, 6) as packed, TextIOWrapper(packed, "utf-8", "surrogateescape", "") as text:
            yield text
    else:
        with path.open(mode, encoding="utf-8", errors="surrogateescape", newline="") as plain:
            yield plain


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("size", type=size_of)
    asked = parser.parse_args()
    grown = grow(asked.source, asked.target, asked.size)
    print(f"{asked.target}: {size_text(grown.size)}, {grown.events:,} events, {grown.copies} copies")


if __name__ == "__main__":
    main()
