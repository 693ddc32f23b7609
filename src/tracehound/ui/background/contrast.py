"""Two runs measured and compared, and two of their steps aligned, in the background.

Owns what was measured, so that a swap costs no reading. Knows no widget but the one that is told.
"""

from __future__ import annotations

from dataclasses import dataclass

from textual.message import Message
from textual.message_pump import MessagePump

from tracehound.diff import Comparison, Profile, compare, profile
from tracehound.diff.slots import Place, Slotted, slotted
from tracehound.trace import Trace, Window
from tracehound.ui.background.threads import Background

Traces = tuple[Trace, Trace]


class Contrast(Background):
    """Compares two traces; the first of a pair is the base."""

    @dataclass
    class Compared(Message):
        """What the runs differ in, and what was measured of each; or why that is not known."""

        traces: Traces
        found: Comparison | None
        failure: str = ""

    @dataclass
    class Aligned(Message):
        """Two steps side by side; or why they cannot be."""

        traces: Traces
        places: tuple[Place, Place]
        found: Slotted | None
        failure: str = ""

    def __init__(self, target: MessagePump) -> None:
        super().__init__()
        self._target = target
        self._profiles: dict[Trace, Profile] = {}

    def compare(self, traces: Traces) -> None:
        """Have `Compared` sent to the target."""

        def tell(found: Comparison | None, failure: str = "") -> None:
            self._target.post_message(self.Compared(traces, found, failure))

        def work() -> None:
            tell(compare(self._measured(traces[0]), self._measured(traces[1])))

        self.submit("comparing", work, lambda why: tell(None, why))

    def align(self, traces: Traces, places: tuple[Place, Place], found: Comparison) -> None:
        """Have `Aligned` sent to the target."""

        def tell(done: Slotted | None, failure: str = "") -> None:
            self._target.post_message(self.Aligned(traces, places, done, failure))

        self.submit("aligning", lambda: tell(slotted(traces, places, found.keys)), lambda why: tell(None, why))

    def _measured(self, trace: Trace) -> Profile:
        """The profile of a whole run, measured once."""
        known = self._profiles.get(trace)
        if known is None:
            known = self._profiles[trace] = profile(trace, Window())
        return known
