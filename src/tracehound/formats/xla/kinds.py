"""What kind of work an HLO op is, by its category, its line and its name.

Owns what a collective, a copy and a transfer are, for all formats and analyses. Pure functions of text; knows no
events.
"""

from __future__ import annotations

import re
from typing import Final

from tracehound.formats.hlo.text import COLLECTIVES, moved_bytes
from tracehound.formats.xla.copies import Copied, awaited, copied, opcode_of_line, slices, started_by, with_host
from tracehound.formats.xla.names import Kind, opcode_of_name

HOST_MEMORY: Final = "S(5)"
"""How a layout says that a buffer lies in the host's memory."""

_BETWEEN_DEVICES: Final = ("send", "recv")
_TRANSFERS: Final = ("infeed", "outfeed", "host send", "host recv", "host-transfer", "host transfer")
_COPIES: Final = ("copy", "copy-start", "copy-done")
_PHASE: Final = re.compile(r"-(start|done|update)$")
_GENERIC: Final = ("async-start", "async-update", "async-done")


def performed(name: str, category: str, text: str = "") -> str:
    """The opcode of what an op does, without its phase; `text` is its HLO line, where known.

    ``reduce-scatter`` of one that is ``reduce-scatter-done(...)``. An ``async-start`` or ``async-done`` may do
    anything: which that is the name of the op tells that starts it.
    """
    opcode = opcode_of_line(text) or category.strip().lower()
    if opcode in _GENERIC:
        opcode = opcode_of_name(name if opcode == "async-start" else started_by(name, text))
    return _PHASE.sub("", opcode)


def op_kind(name: str, category: str, text: str = "") -> Kind:
    """The kind of an HLO op of this name with this category or opcode; `text` is its HLO line, where known.

    Collective = data goes to other devices, over ICI or DCN, sends and receives included, of which those between slices
    pass through their hosts. Transfer = a feed, a send to or receive from the host, or a copy with the host's memory on
    one side. Copy = from one memory of the device to another, or asynchronous (as a whole or of a slice), or an op of
    the opcode ``copy``; one of the category data formatting, which lays data out anew within one memory, computes. Both
    halves of an asynchronous op are of one kind.
    """
    bare, does = _PHASE.sub("", category.strip().lower()), performed(name, category, text)
    if bare.startswith(COLLECTIVES) or does.startswith(COLLECTIVES):
        return "collective"
    if does in _BETWEEN_DEVICES:
        return "transfer" if with_host(category, text) else "collective"
    if bare in _TRANSFERS:
        return "transfer"
    said = _moved(name, category, text)
    if said is not None:
        return "transfer" if said.with_host else "copy"
    generic = (opcode_of_line(text) or category) in _GENERIC
    if bare in _COPIES or (generic and slices(does)):
        return "transfer" if HOST_MEMORY in text else "copy"
    return "op"


def op_bytes(name: str, category: str, text: str) -> int | None:
    """Bytes that a collective, copy or transfer of this name, category and line moves; None where that does not tell.

    Of an asynchronous slice, and of what updates a part of a buffer, those of the part.
    """
    said = _moved(name, category, text)
    return moved_bytes(text) if said is None else said.bytes


def _moved(name: str, category: str, text: str) -> Copied | None:
    """What an op copies, or what the copy moves that it waits for; None for what is no copy."""
    return copied(name, category, text) or awaited(name, category, text)
