"""A profile in a file, to stand in for its run: small, and without events.

Owns the form: JSON with a ``schema``, its frames as columns.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import msgspec
import orjson
import polars as pl

from tracehound.diff.identity import IDENTITY
from tracehound.diff.measures import MEASURES
from tracehound.diff.profile import PARTS, Profile
from tracehound.errors import TracehoundError
from tracehound.formats.unknown import BASELINE
from tracehound.notes import Note, text_note
from tracehound.whole import whole

SCHEMA: Final = "tracehound.profile/1"

MOST: Final = 2.0**62
"""No step lasts so many ps."""

_STEPS: Final = {"step": pl.Int64, "ranks": pl.Int64, **dict.fromkeys(("duration", *PARTS), pl.Float64)}
_OPS: Final = {
    "step": pl.Int64,
    **dict.fromkeys(IDENTITY, pl.String),
    **dict.fromkeys(("count", "time", "exposed"), pl.Float64),
}


def refuse_other(path: Path) -> None:
    """Raise TracehoundError where something else than a baseline is in the place of one: that is not replaced."""
    if os.path.lexists(path) and not _marked(path):
        raise TracehoundError(
            "is not a baseline, and is not replaced", path, remedy="give --save-baseline another name"
        )


def saved(profile: Profile, path: Path) -> None:
    """Write the profile beside `path` and put it there, where there is none but another baseline.

    Raises TracehoundError where that cannot be done.
    """
    refuse_other(path)
    document = {
        "schema": SCHEMA,
        "name": profile.name,
        "ranks": profile.ranks,
        "what": profile.what,
        "of": profile.of,
        "steps": profile.steps.select(list(_STEPS)).to_dict(as_series=False),
        "ops": profile.ops.select(list(_OPS)).to_dict(as_series=False),
        "measures": profile.measures.select(list(MEASURES)).to_dict(as_series=False),
        "form": profile.form,
        "outside": profile.outside,
        "lost": msgspec.to_builtins(profile.lost),
        "partial": profile.partial,
        "without": profile.without,
        "doubt": msgspec.to_builtins(profile.doubt),
    }
    try:
        with whole(path) as file:
            file.write(orjson.dumps(document) + b"\n")
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise TracehoundError(f"cannot be written: {why}", path) from error


def loaded(path: Path) -> Profile | None:
    """The profile in a file; None where the file is none of these.

    Raises TracehoundError for one that is damaged, or that a later version saved.
    """
    version = _marked(path)
    if not version:
        return None
    if version != SCHEMA:
        raise TracehoundError(f"the baseline is a {version}, and this reads {SCHEMA}", path, remedy="save it again")
    try:
        return _profile(orjson.loads(path.read_bytes()))
    except (AttributeError, KeyError, TypeError, ValueError, pl.exceptions.PolarsError) as error:
        raise TracehoundError("the baseline is damaged", path, remedy="save it again: --save-baseline") from error


def _marked(path: Path) -> str:
    """The schema of a baseline, however its JSON is spaced; "" for a file that does not begin as one does."""
    try:
        if not path.is_file():
            return ""
        with path.open("rb") as file:
            found = BASELINE.match(file.read(_HEAD))
    except OSError:
        return ""
    return found[1].decode() if found else ""


_HEAD: Final = 256


def _profile(document: dict[str, Any]) -> Profile:
    work = {"path": [""] * len(document["ops"]["step"]), **document["ops"]}  # older ones know the outermost operator
    also = document.get("measures", {name: [] for name in MEASURES})
    steps, ops, measures = frames = [
        pl.DataFrame({name: columns[name] for name in schema}, schema=schema)
        for columns, schema in ((document["steps"], _STEPS), (work, _OPS), (also, MEASURES))
    ]
    if any(sum(frame.null_count().row(0)) for frame in frames):
        raise ValueError("a value is missing")
    times = [steps.select("duration", *PARTS), ops.select("count", "time", "exposed"), measures.select("count")]
    if not all(each.select(pl.all().is_between(0, MOST)).to_numpy().all() for each in times):
        raise ValueError("a time that cannot be true")
    words = [document["name"], document["what"], document["of"], document.get("form", "")]
    if not all(isinstance(each, str) for each in words):
        raise TypeError("no text")
    name, what, of, form = words
    lost, doubt = map(_note, document.get("lost", [])), document.get("doubt")
    outside = float(document.get("outside", 0))
    partial = tuple(int(step) for step in document.get("partial", []))
    ranks, without = int(document["ranks"]), int(document.get("without", 0))
    told = (form, outside, tuple(lost), partial, without)
    return Profile(name, ranks, what, of, steps, ops, measures, *told, doubt=_note(doubt) if doubt else None)


def _note(saved: object) -> Note:
    """A note of a baseline; the first baselines have sentences. Raises ValueError for what is none."""
    return text_note(saved) if isinstance(saved, str) else msgspec.convert(saved, Note)
