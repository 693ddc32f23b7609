"""Two runs measured and compared, and two of their steps aligned, in the background.

Owns what was measured, so that a swap costs no reading. Knows no widget but the one that is told.
"""

from __future__ import annotations

from dataclasses import dataclass

from textual.message import Message
from textual.message_pump import MessagePump

from tracehound.diff import Comparison, RunProfile, compare_runs, profile_run
from tracehound.diff.aligned_steps import AlignedSteps, StepInterval, align_steps
from tracehound.model.trace import Trace, Window
from tracehound.ui.background.background_thread import BackgroundThread

TracePair = tuple[Trace, Trace]


class ComparisonRunner(BackgroundThread):
    """Compares two traces; the first of a pair is the base."""

    @dataclass
    class Compared(Message):
        """Differences of two runs, and the profile of each; or the reason why there are none."""

        traces: TracePair
        found: Comparison | None
        failure: str = ""

    @dataclass
    class Aligned(Message):
        """Two steps side by side; or why they cannot be."""

        traces: TracePair
        places: tuple[StepInterval, StepInterval]
        found: AlignedSteps | None
        failure: str = ""

    def __init__(self, target: MessagePump) -> None:
        super().__init__()
        self._target = target
        self._profiles: dict[Trace, RunProfile] = {}

    def compare(self, traces: TracePair) -> None:
        """Have `Compared` sent to the target."""

        def tell(found: Comparison | None, failure: str = "") -> None:
            self._target.post_message(self.Compared(traces, found, failure))

        def work() -> None:
            tell(compare_runs(self._measured(traces[0]), self._measured(traces[1])))

        self.submit("comparing", work, lambda why: tell(None, why))

    def align(self, traces: TracePair, places: tuple[StepInterval, StepInterval], found: Comparison) -> None:
        """Have `Aligned` sent to the target."""

        def tell(done: AlignedSteps | None, failure: str = "") -> None:
            self._target.post_message(self.Aligned(traces, places, done, failure))

        self.submit("aligning", lambda: tell(align_steps(traces, places, found.keys)), lambda why: tell(None, why))

    def _measured(self, trace: Trace) -> RunProfile:
        """The profile of a whole run, measured once."""
        known = self._profiles.get(trace)
        if known is None:
            known = self._profiles[trace] = profile_run(trace, Window())
        return known
