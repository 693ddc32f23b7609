"""A trace -> a document of Chrome trace events, which Perfetto and chrome://tracing open.

Owns which way it takes there: through its own JSON, or out of the model; and the gzip around it.
"""

from __future__ import annotations

from typing import BinaryIO, Final, cast

from isal import igzip

from tracehound.errors import TracehoundError
from tracehound.export.copied import copied
from tracehound.export.document import Document
from tracehound.export.model import modelled
from tracehound.export.written import Tell, Written
from tracehound.trace import Trace, Window

LEVEL: Final = 2
"""Of igzip's levels 0 to 3: as small as gzip's own first ones, at several times their speed."""

_OF_RANKS: Final = "kineto"
_JSON: Final = (_OF_RANKS, "chrome")


def plain(trace: Trace, window: Window, file: BinaryIO, tell: Tell) -> Written:
    """Write it. Raises TracehoundError where the files are not of one kind, or cannot be read again."""
    formats = {part.format for part in trace.parts}
    if _OF_RANKS in formats and len(formats) > 1:
        raise TracehoundError("PyTorch and XLA traces do not fit one document", remedy="export each alone")
    document = Document(file)
    if formats == {_OF_RANKS} or (len(trace.parts) == 1 and formats <= set(_JSON)):
        return copied(trace, window, document, tell)
    return modelled(trace, window, document, tell)


def packed(trace: Trace, window: Window, file: BinaryIO, tell: Tell) -> Written:
    """Write it through gzip; the same trace gives the same bytes."""
    gzip = igzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=LEVEL, mtime=0)  # type: ignore[no-untyped-call]  # isal declares no types here
    with gzip:
        return plain(trace, window, cast("BinaryIO", gzip), tell)
