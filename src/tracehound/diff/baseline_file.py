"""Baseline files: a profile saved in a file, to stand in for its run; small, and without events.

Owns the form: JSON with a ``schema``, its frames as columns.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import orjson
import polars as pl

from tracehound.diff.op_identity import IDENTITY_COLUMNS
from tracehound.diff.run_profile import RANK_PART_SCHEMA, SHAPE_SCHEMA, STEP_PARTS, RunProfile
from tracehound.diff.step_measures import MEASURE_SCHEMA
from tracehound.errors import TracehoundError
from tracehound.formats.file_signatures import BASELINE_START
from tracehound.model.notes import Note, text_note
from tracehound.model.old_names import CURRENT_NAMES
from tracehound.system.atomic_file import atomic_write

BASELINE_SCHEMA: Final = "tracehound.profile/1"

MAX_TIME: Final = 2.0**62
"""No step takes so many ps."""

_STEP_SCHEMA: Final = {"step": pl.Int64, "ranks": pl.Int64, **dict.fromkeys(("duration", *STEP_PARTS), pl.Float64)}
_OP_SCHEMA: Final = {
    "step": pl.Int64,
    **dict.fromkeys(IDENTITY_COLUMNS, pl.String),
    **dict.fromkeys(("count", "time", "exposed"), pl.Float64),
}


def refuse_non_baseline(path: Path) -> None:
    """Raise TracehoundError where `path` is a file that is no baseline: it is not replaced."""
    if os.path.lexists(path) and not _read_schema_name(path):
        raise TracehoundError(
            "is not a baseline, and is not replaced", path, remedy="give --save-baseline another name"
        )


def save_baseline(profile: RunProfile, path: Path) -> None:
    """Write the profile beside `path` and move it there, replacing at most an older baseline.

    Raises TracehoundError where that cannot be done.
    """
    refuse_non_baseline(path)
    document = {
        "schema": BASELINE_SCHEMA,
        "name": profile.name,
        "ranks": profile.ranks,
        "what": profile.what,
        "of": profile.of,
        "steps": profile.steps.select(list(_STEP_SCHEMA)).to_dict(as_series=False),
        "ops": profile.ops.select(list(_OP_SCHEMA)).to_dict(as_series=False),
        "measures": profile.measures.select(list(MEASURE_SCHEMA)).to_dict(as_series=False),
        "form": profile.form,
        "outside": profile.outside,
        "lost": msgspec.to_builtins(profile.missing_data),
        "partial": profile.partial,
        "without": profile.ranks_left_out,
        "doubt": msgspec.to_builtins(profile.doubt),
        "phases": profile.steps["phase"].to_list(),
        "rank_parts": profile.rank_parts.to_dict(as_series=False),
        "shapes": profile.shapes.to_dict(as_series=False),
        "devices": profile.devices,
    }
    try:
        with atomic_write(path) as file:
            file.write(orjson.dumps(document) + b"\n")
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise TracehoundError(f"cannot be written: {why}", path) from error


def load_baseline(path: Path) -> RunProfile | None:
    """The profile in a file; None where the file is no baseline.

    Raises TracehoundError for a damaged one, and for one that a later version saved.
    """
    version = _read_schema_name(path)
    if not version:
        return None
    if version != BASELINE_SCHEMA:
        raise TracehoundError(
            f"the baseline is a {version}, and this reads {BASELINE_SCHEMA}", path, remedy="save it again"
        )
    try:
        return _profile_from_json(orjson.loads(path.read_bytes()))
    except (AttributeError, KeyError, TypeError, ValueError, pl.exceptions.PolarsError) as error:
        raise TracehoundError("the baseline is damaged", path, remedy="save it again: --save-baseline") from error


def _read_schema_name(path: Path) -> str:
    """The schema of a baseline, however its JSON is spaced; "" for a file that does not begin as one does."""
    try:
        if not path.is_file():
            return ""
        with path.open("rb") as file:
            found = BASELINE_START.match(file.read(_HEAD_BYTES))
    except OSError:
        return ""
    return found[1].decode() if found else ""


_HEAD_BYTES: Final = 256


def _profile_from_json(document: dict[str, Any]) -> RunProfile:
    """The profile in a document. Raises an error where a value is missing or cannot be true."""
    op_columns = {
        "path": [""] * len(document["ops"]["step"]),
        **document["ops"],
    }  # older ones know the outermost operator
    measure_columns = document.get("measures", {name: [] for name in MEASURE_SCHEMA})
    steps, ops, measures = frames = [
        pl.DataFrame({name: columns[name] for name in schema}, schema=schema)
        for columns, schema in (
            (document["steps"], _STEP_SCHEMA),
            (op_columns, _OP_SCHEMA),
            (measure_columns, MEASURE_SCHEMA),
        )
    ]
    own = pl.col("topic").is_in(["idle", "counters"])
    measures = measures.with_columns(pl.when(own).then(pl.col("name").replace(CURRENT_NAMES)).otherwise("name"))
    if any(sum(frame.null_count().row(0)) for frame in frames):
        raise ValueError("a value is missing")
    times = [steps.select("duration", *STEP_PARTS), ops.select("count", "time", "exposed"), measures.select("count")]
    if not all(each.select(pl.all().is_between(0, MAX_TIME)).to_numpy().all() for each in times):
        raise ValueError("a time that cannot be true")
    words = [document["name"], document["what"], document["of"], document.get("form", "")]
    if not all(isinstance(each, str) for each in words):
        raise TypeError("no text")
    name, what, of, form = words
    lost, doubt = map(_note_from_json, document.get("lost", [])), document.get("doubt")
    outside = float(document.get("outside", 0))
    partial = tuple(int(step) for step in document.get("partial", []))
    ranks, without = int(document["ranks"]), int(document.get("without", 0))
    more_fields = (form, outside, tuple(lost), partial, without)
    phases = pl.Series("phase", document.get("phases", [""] * steps.height), dtype=pl.String)
    return RunProfile(
        name,
        ranks,
        what,
        of,
        steps.with_columns(phases),
        ops,
        measures,
        *more_fields,
        doubt=_note_from_json(doubt) if doubt else None,
        rank_parts=_frame_from_json(document, "rank_parts", RANK_PART_SCHEMA),
        shapes=_frame_from_json(document, "shapes", SHAPE_SCHEMA),
        devices=tuple(str(model) for model in document.get("devices", [])),
    )


def _frame_from_json(document: Mapping[str, Any], name: str, schema: Mapping[str, Any]) -> pl.DataFrame:
    """A frame that older baselines do not have: they have no rows of it. Raises ValueError where a value is missing."""
    columns = document.get(name) or {column: [] for column in schema}
    frame = pl.DataFrame({column: columns[column] for column in schema}, schema=schema)
    times = frame.select(pl.col(column) for column, dtype in schema.items() if dtype == pl.Float64)
    if sum(frame.null_count().row(0)) or not times.select(pl.all().abs() <= MAX_TIME).to_numpy().all():
        raise ValueError("a value that cannot be true")
    return frame


def _note_from_json(saved: object) -> Note:
    """A note of a baseline; the first baselines have sentences. Raises ValueError for anything else."""
    return text_note(saved) if isinstance(saved, str) else msgspec.convert(saved, Note)
