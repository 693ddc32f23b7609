"""What a file that is no trace of ours looks like, from its first bytes.

Owns the words for it, so that a person who opened the wrong file learns which one to open instead.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

from tracehound.errors import TracehoundError
from tracehound.formats.salvage import Damage
from tracehound.formats.signs import BOM, perfetto
from tracehound.units import plural


class CompanionError(TracehoundError):
    """A file is no trace, but one of those that lie beside traces: nothing of them is missing without it."""


class Likeness(NamedTuple):
    """What a file looks like, what to do about it, and whether it is one of those that lie beside traces."""

    looks: str
    remedy: str = ""
    companion: bool = False


_PROFILE: Final = "open the JSON that torch.profiler writes, or an XLA xplane.pb"
_MAGIC: Final = (
    (b"\x1f\x8b", Likeness("a gzip file inside another", "unpack it once")),
    (b"PK\x03\x04", Likeness("a zip archive", "unpack it first")),
    (b"\x28\xb5\x2f\xfd", Likeness("a zstd file", "unpack it first")),
    (b"\xfd7zXZ", Likeness("an xz file", "unpack it first")),
    (b"BZh", Likeness("a bzip2 file", "unpack it first")),
    (b"SQLite format 3", Likeness("an SQLite database, as Nsight Systems and rocprof export", _PROFILE)),
    (b"PAR1", Likeness("a Parquet file", _PROFILE)),
    (b"ARROW1", Likeness("an Arrow file", _PROFILE)),
    (b"\x80\x04", Likeness("a Python pickle, as torch.cuda.memory snapshots are", _PROFILE, companion=True)),
    (b"\x80\x02", Likeness("a Python pickle", _PROFILE)),
    (b"\x7fELF", Likeness("a program", _PROFILE)),
    (b"HloModule", Likeness("HLO text", "open the profile it belongs to")),
)
_UTF16: Final = re.compile(rb"\xff\xfe(?!\0\0)|\xfe\xff|[{\[]\0[\t\n\r -~]\0|\0[{\[]\0[\t\n\r -~]")
"""How UTF-16 begins: its mark, or JSON without one."""

_PPROF: Final = re.compile(rb"(?:\n\x04\x08[\x00-\x7f]\x10[\x00-\x7f])+[\n\x12]")
"""How pprof's protocol buffer begins: types of samples, each two places in its table of texts, then a sample."""

BASELINE: Final = re.compile(rb'\s*\{\s*"schema"\s*:\s*"(tracehound\.profile/\d+)"')
"""How a saved baseline begins, however its JSON is spaced: its schema."""

_BLANK: Final = Likeness("a file of blanks", _PROFILE)
_PLAIN: Final = Likeness("JSON without trace events", _PROFILE)
_LISTS: Final = re.compile(rb"\s*\[\s*\[\s*-?\d")
_BEGIN: Final = re.compile(rb'"ph"\s*:\s*"[BE]"')
_PHASE: Final = re.compile(rb'"ph"\s*:\s*"')
_UNPRINTABLE: Final = re.compile(rb"[\x00-\x08\x0e-\x1a]")
_TAR_MARK: Final = slice(257, 262)


def likeness(start: bytes) -> Likeness:
    """What the file that begins with these inflated bytes looks like."""
    marked = next((found for magic, found in _MAGIC if start.startswith(magic)), None)
    if marked is not None:
        return marked
    if _UTF16.match(start):
        return Likeness("UTF-16 text", "convert it to UTF-8, as iconv -f UTF-16 -t UTF-8 does")
    if start[_TAR_MARK] == b"ustar":
        return Likeness("a tar archive", "unpack it first")
    if _PPROF.match(start):
        looks = "a profile for pprof, as jax.profiler.save_device_memory_profile writes"
        return Likeness(looks, "go tool pprof reads it; " + _PROFILE, companion=True)
    if perfetto(start):
        return Likeness("a Perfetto trace in its own form, a protocol buffer", _PROFILE)
    text = start.lstrip(BOM + b" \t\r\n")
    return _json(text) if text[:1] in (b"{", b"[") else _no_json(text)


def cut_short(path: Path, start: bytes, damage: Damage) -> TracehoundError:
    """What to say of a gzip file of which no more than this start could be read, and that is no start of a trace."""
    found = likeness(start)
    told = "is too little to tell what it is" if found in (_BLANK, _PLAIN) else f"looks like {found.looks}"
    size = plural(len(start), "byte")
    left = f"what could be read before that ({size}) {told}" if start else "nothing before that could be read"
    return TracehoundError(
        f"gzip {damage.what}, and {left}", path, where=f"byte {damage.at:,}", remedy="copy it again, or record it anew"
    )


def _no_json(text: bytes) -> Likeness:
    if text[:9].lower() == b"<!doctype" or text[:5].lower() == b"<html":
        return Likeness("a web page", "if it is a report, open the trace it was made from")
    if not text:
        return _BLANK
    if not _UNPRINTABLE.search(text):
        return Likeness("a text file", _PROFILE)
    return Likeness("a file of an unknown kind", _PROFILE)


def _json(text: bytes) -> Likeness:
    if BASELINE.match(text):
        return Likeness(
            "a baseline: what was measured of a run, without its events",
            "tracehound diff compares another run with it",
            companion=True,
        )
    if b'"schema"' in text and (b'"nodes"' in text or b"execution_trace" in text):
        return Likeness(
            "a PyTorch execution trace, a graph of operators",
            "open the profiler's trace of the same run",
            companion=True,
        )
    if _LISTS.match(text):
        remedy = "export it as ....raw.json.gz, or open the profiler's trace of the same run"
        return Likeness("a memory timeline (export_memory_timeline) in its form for plots", remedy, companion=True)
    if _BEGIN.search(text):
        return Likeness("a trace of begin and end events, which neither PyTorch nor XLA writes", _PROFILE)
    if _PHASE.search(text):
        return Likeness("a Chrome trace that neither PyTorch nor XLA wrote", _PROFILE)
    return _PLAIN
