"""What kind of work an HLO op is, by its category, its line and its name.

Owns what a collective, a copy and a transfer are, for all formats and analyses. Pure functions of text; knows no
events.
"""

from __future__ import annotations

import re
from typing import Final

from tracehound.formats.xla_copies import opcode_of_line, started_by, with_host
from tracehound.formats.xla_names import COLLECTIVES, Kind, opcode_of_name

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

    Sends and receives are collectives: they go to other devices, over ICI or DCN; but those to and from the host are
    transfers, as is a copy with the host's memory on one side. Of an asynchronous op that counts which it starts.
    """
    bare, does = _PHASE.sub("", category.strip().lower()), performed(name, category, text)
    if bare.startswith(COLLECTIVES) or does.startswith(COLLECTIVES):
        return "collective"
    if bare in _TRANSFERS:
        return "transfer"
    if does in _BETWEEN_DEVICES:
        return "transfer" if with_host(category, text) else "collective"
    if bare in _COPIES:
        return "transfer" if HOST_MEMORY in text else "copy"
    return "op"
