"""What kind of work an HLO op is, by its category, its line and its name.

Owns what a collective, a copy and a transfer are, for all formats and analyses. Pure functions of text; knows no
events.
"""

from __future__ import annotations

import re
from typing import Final

from tracehound.formats.xla_copies import opcode_of_line, started_by
from tracehound.formats.xla_names import COLLECTIVES, Kind, opcode_of_name

HOST_MEMORY: Final = "S(5)"
"""How a layout says that a buffer lies in the host's memory."""

_TRANSFERS: Final = (
    "send", "recv", "infeed", "outfeed", "host send", "host recv", "host-transfer", "host transfer",
)  # fmt: skip
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

    A copy with the host's memory on one side is a transfer. Of an asynchronous op that counts which it starts.
    """
    bare = _PHASE.sub("", category.strip().lower())
    if bare.startswith(COLLECTIVES) or performed(name, category, text).startswith(COLLECTIVES):
        return "collective"
    if bare in _TRANSFERS:
        return "transfer"
    if bare in _COPIES:
        return "transfer" if HOST_MEMORY in text else "copy"
    return "op"
