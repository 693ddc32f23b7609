"""What the HLO line of a copy says: from which memory to which it goes, and how many bytes it moves.

Owns the names of memory spaces and the shapes of the lines of copies. Pure functions of text; knows no events.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from tracehound.formats.hlo.text import COLLECTIVES, shape_bytes, split_shape, tuple_elements
from tracehound.formats.sizes import MOST_BYTES

HOST: Final = "host"
DEVICE: Final = "HBM"
"""Where a buffer lies whose layout names no space."""

_SPACES: Final = {"1": "VMEM", "2": "sync flags", "5": HOST, "6": "SMEM"}
_SPACE: Final = re.compile(r"S\((\d{1,9})\)")
_UPDATING: Final = "dynamic-update-slice"
_FED: Final = {"infeed": (HOST, DEVICE), "outfeed": (DEVICE, HOST), "send": (DEVICE, HOST), "recv": (HOST, DEVICE)}
_SLICING: Final = re.compile(r"slice|copy")
_TO_HOST: Final = "is_host_transfer=true"
_BETWEEN_SLICES: Final = "xla_megascale_runtime"
_TRANSFER_TYPE: Final = re.compile(r"_xla_megascale_transfer_type\W{1,9}(\w+)")


class Copied(NamedTuple):
    """From which memory to which a copy goes, and its bytes (None: the line does not tell)."""

    source: str
    target: str
    bytes: int | None

    @property
    def with_host(self) -> bool:
        """Whether one side is the host's memory."""
        return HOST in (self.source, self.target)


def is_done(category: str, text: str) -> bool:
    """Whether an op waits for the end of an asynchronous one, by the opcode of its line, else by its category."""
    return (opcode_of_line(text) or category).strip().lower().endswith("-done")


def opcode_of_line(text: str) -> str:
    """``copy-start`` of ``%a = (f32[2], f32[2]) copy-start(f32[2] %b)``; "" where the text is no HLO line."""
    _, equals, rest = text.partition(" = ")
    return split_shape(rest)[1].partition("(")[0].strip() if equals else ""


def operands_of_line(text: str) -> list[str]:
    """The operands of an HLO line, with their shapes where it has them."""
    _, _, rest = text.partition(" = ")
    _, opening, inside = split_shape(rest)[1].partition("(")
    if not opening:
        return []
    depth = 1
    for at, char in enumerate(inside):
        depth += (char in "([{") - (char in ")]}")
        if depth == 0:
            return [one.strip() for one in tuple_elements(inside[:at])]
    return []


_NAME: Final = re.compile(r"%([^\s,()%]+)\s*$")


def started_by(name: str, text: str) -> str:
    """The name of the op that a ``-done`` op waits for: its last operand, else its own name with ``-start``."""
    operands = operands_of_line(text)
    named = _NAME.search(operands[-1]) if operands else None
    return named[1] if named else name.replace("-done", "-start", 1)


def copied(name: str, category: str, text: str) -> Copied | None:
    """What an HLO op copies, if it is a copy that crosses memories, a feed, or the start of an asynchronous copy.

    What ``-done`` ops wait for is told by their ``-start``, or by `awaited`. Asynchronous collectives are no copies.
    """
    opcode = opcode_of_line(text) or category
    bare = re.sub(r"-done$", "", opcode.removeprefix("host ")).strip()
    shape = split_shape(text.partition(" = ")[2])[0]
    if bare in ("infeed", "outfeed") or (bare in ("send", "recv") and with_host(category or opcode, text)):
        sent = operands_of_line(text)[:1] if bare in ("outfeed", "send") else _inside(shape)[:1]
        return Copied(*_FED[bare], _size("".join(sent)) or None)
    if opcode in ("copy-start", "async-start"):
        return _asynchronous(name, opcode, _inside(shape), operands_of_line(text))
    if opcode == "copy" and (operands := operands_of_line(text)):
        source, target = space(operands[0]), space(shape)
        return Copied(source, target, _size(shape)) if source != target else None
    return None


def awaited(name: str, category: str, text: str) -> Copied | None:
    """What the asynchronous copy moves that an op waits for, if that is one, and the op's line has the operand's shape.

    Without that shape a slice or copy is known by its name alone, and not from where to where it goes.
    """
    opcode, operands = opcode_of_line(text) or category, operands_of_line(text)
    if opcode not in ("copy-done", "async-done") or not operands:
        return None
    begun = opcode.replace("-done", "-start")
    return _asynchronous(started_by(name, text), begun, _inside(split_shape(operands[-1])[0]), [])


def slices(name: str) -> bool:
    """Whether an asynchronous op of this name, or opcode, copies a buffer or a part of it."""
    return _SLICING.search(name) is not None


def _inside(shape: str) -> list[str]:
    """The elements of a tuple's shape; of another the shape itself."""
    return [part.strip() for part in tuple_elements(shape[1:-1])] if shape.startswith("(") else [shape]


def with_host(category: str, text: str) -> bool:
    """Whether a send or a receive is one to or from the host, and not between devices.

    What the runtime of multi-slice jobs takes from a host's memory is on its way to another slice, over DCN.
    """
    to_host = _TO_HOST in text or category.strip().lower().startswith("host ")
    return to_host and _BETWEEN_SLICES not in text


def between_slices(text: str) -> str:
    """What a send or receive between slices is part of: ``all_reduce``, ``one_to_one``; "" where its line says none."""
    found = _TRANSFER_TYPE.search(text)
    return found[1].lower() if found else ""


def _asynchronous(name: str, opcode: str, parts: list[str], operands: list[str]) -> Copied | None:
    """A ``copy-start`` gives (target, source, context), an ``async-start`` ((operands), target, context)."""
    if len(parts) < 2:
        return None
    if opcode == "copy-start":
        return Copied(space(parts[1]), space(parts[0]), _size(parts[0]))
    given = operands or _inside(parts[0])
    updating = _UPDATING in name and len(given) > 1
    moved = given[1] if updating else parts[1]
    found = Copied(space(moved if updating else given[0]), space(parts[1]), _size(moved))
    crosses = found.source != found.target and not name.startswith(COLLECTIVES)
    return found if slices(name) or crosses else None


def _size(shape: str) -> int | None:
    """Bytes of a shape; None for more than there can be."""
    size = shape_bytes(shape)
    return size if size <= MOST_BYTES else None


def space(shape: str) -> str:
    """The memory that a shape's layout names: ``f32[2]{0:T(128)S(5)}`` lies in the host's."""
    found = _SPACE.search(shape)
    return DEVICE if found is None or found[1] == "0" else _SPACES.get(found[1], f"space {found[1]}")
