"""A trace written to a file for other programs: `FORMS` is the literal list of what can be written."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import BinaryIO, Final

from msgspec import Struct

from tracehound.errors import TracehoundError, printable
from tracehound.export.written import Tell, Written, said
from tracehound.trace import Trace, Window

__all__ = ["FORMS", "Form", "Tell", "Write", "Written", "named", "said"]

Write = Callable[[Trace, Window, BinaryIO, Tell], Written]
"""Writes a trace, narrowed to a window, to a file. Raises TracehoundError where that cannot be."""


class Form(Struct, frozen=True):
    """One kind of file: `suffix` is how its name ends, `module` has the function `writer`; imported when it is used.

    One that is a `trace` again is read with the others where it lies among them.
    """

    name: str
    suffix: str
    purpose: str
    module: str
    writer: str
    trace: bool = False

    @property
    def write(self) -> Write:
        """What writes it."""
        write: Write = getattr(import_module(self.module), self.writer)
        return write


_CHROME: Final = "tracehound.export.chrome"
_FRAMES: Final = "tracehound.export.frames"
_FOLDED: Final = "tracehound.export.folded"

FORMS: Final = (
    Form("json", ".json", "Chrome trace events with counter tracks, for Perfetto", _CHROME, "plain", trace=True),
    Form("json.gz", ".json.gz", "the same, gzipped", _CHROME, "packed", trace=True),
    Form("parquet", ".parquet", "a flat table with a row for each event", _FRAMES, "parquet"),
    Form("arrow", ".arrow", "the same as an Arrow IPC file", _FRAMES, "arrow"),
    Form("csv", ".csv", "the same as text", _FRAMES, "csv"),
    Form(
        "device", ".device.folded", "device time by the call path that launched it, for flame graphs", _FOLDED, "device"
    ),
    Form("folded", ".folded", "host time by call path, as folded stacks for flame graphs", _FOLDED, "host"),
)


def named(name: str, out: str) -> Form:
    """The form of that name; without a name, that of a file called `out` (of ``-``, which is stdout, the first).

    Raises TracehoundError where there is none.
    """
    names = ", ".join(form.name for form in FORMS)
    for form in FORMS:
        if form.name == name or (not name and out.lower().endswith(form.suffix)):
            return form
    if name:
        raise TracehoundError(f"no form {printable(name)!r}", remedy=f"there are {names}")
    if out == "-":
        return FORMS[0]
    ends = ", ".join(form.suffix for form in FORMS)
    raise TracehoundError(
        f"the name of {printable(out)!r} tells no form",
        remedy=f"a file ends with {ends}, a folder ends with /; --format says it, too",
    )
