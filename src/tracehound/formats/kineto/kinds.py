"""What the events of a segment of a Kineto file are: kinds, and the steps that they mark.

Owns the order in which category, args and name have a say. What they mean is in `kineto.names`.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from tracehound.formats.json.columns import MISSING, Answers, Numbers
from tracehound.formats.kineto.columns import Columns
from tracehound.formats.kineto.legacy import kind_of
from tracehound.formats.kineto.names import (
    call_kind,
    category,
    copy_kind,
    kernel_kind,
    moves_on_mtia,
    operator_kind,
    step_number,
)
from tracehound.formats.kineto.piece import GLOO, Piece, Signature
from tracehound.trace import KIND_CODES

_NAMED: Final = {"kernel": kernel_kind, "copy": copy_kind, "runtime": call_kind, "op": operator_kind}


class KnownKinds(dict[tuple[str, str], int]):
    """The kind by its name of what is of some kind by its category; kept over segments, which share most names."""

    def __missing__(self, key: tuple[str, str]) -> int:
        by_category, name = key
        number = self[key] = KIND_CODES[_NAMED[by_category](name)]
        return number


def kinds_and_steps(
    columns: Columns, events: Piece, known: KnownKinds
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.int32]]:
    """What each event is, as a position in `KINDS`: by its category, then by its args, then by its name.

    And the number of the step that it marks, -1 for most.
    """
    kind = Answers(columns.signatures, _kind).of(events.signature)
    names = list(columns.names)
    for which in _NAMED:
        rows = np.flatnonzero(kind == KIND_CODES[which])
        found = np.full(len(names), KIND_CODES[which], np.int8)
        for code in _used(events.name[rows], len(names)):
            found[code] = known[which, names[code]]
        kind[rows] = found[events.name[rows]]
    on_mtia = Answers(columns.signatures, _on_mtia).all() > 0
    if on_mtia.any():
        moves = Answers(columns.names, moves_on_mtia).of(events.name)
        kind[on_mtia[events.signature] & (moves > 0) & (kind == KIND_CODES["kernel"])] = KIND_CODES["copy"]
    kind[events.collective & (kind == KIND_CODES["kernel"])] = KIND_CODES["collective"]
    step = _steps(columns, events, kind)
    kind[step >= 0] = KIND_CODES["step"]
    return kind, step


def may_be_collective(columns: Columns, events: Piece, kind: npt.NDArray[np.int8]) -> npt.NDArray[np.bool_]:
    """Which events a collective's operator elsewhere in the file, or the lack of devices in it, may have a say in."""
    kernel, collective = kind == KIND_CODES["kernel"], kind == KIND_CODES["collective"]
    found: npt.NDArray[np.bool_] = (kernel | (collective & (events.bytes < 0))) & (events.external >= 0)
    gloo = Answers(columns.names, lambda name: name.startswith(GLOO)).all()
    if gloo.any():
        found |= (kind == KIND_CODES["annotation"]) & (gloo[events.name] > 0)
    return found


def _kind(signature: Signature) -> int:
    return KIND_CODES[kind_of(signature) or category(signature[0]).kind]


def _on_mtia(signature: Signature) -> bool:
    return category(signature[0]).family == "MTIA"


def _used(column: Numbers, size: int) -> list[int]:
    """Which of the numbers below `size` are in the column."""
    seen = np.zeros(size, np.bool_)
    seen[column] = True
    return np.flatnonzero(seen).tolist()


def _steps(columns: Columns, events: Piece, kind: npt.NDArray[np.int8]) -> npt.NDArray[np.int32]:
    """Marks lie on threads; those on devices are their shadows."""
    of_name = np.fromiter(map(step_number, columns.names), np.int32, len(columns.names))
    marking = ((kind == KIND_CODES["annotation"]) | (kind == KIND_CODES["op"])) & (events.device < 0)
    return np.where(marking, of_name[events.name], np.int32(MISSING))
