"""Results of analyses and comparisons, computed in the background.

Answers are kept, so that going back and forth costs nothing. An answer that nobody waits for any more is dropped, and
while a trace is being read answers are renewed only now and then. Knows no widget but the receiver of its messages.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from threading import Lock
from typing import Final

from msgspec import Struct
from msgspec.structs import replace
from textual.cache import LRUCache
from textual.message import Message
from textual.message_pump import MessagePump

from tracehound.analysis import Options, Result, get_analysis, run_analysis
from tracehound.analysis.analysis_settings import ChosenSettings
from tracehound.analysis.gaps import LEAST_GAPS
from tracehound.config import configured_settings
from tracehound.diff import Comparison, RunProfile, compare_runs, profile_run
from tracehound.diff.aligned_steps import AlignedSteps, StepInterval, align_steps
from tracehound.draw.folded_rows import fold_messages
from tracehound.draw.notes import render_note_columns
from tracehound.model.trace import Trace, Window
from tracehound.ui.background.background_thread import BackgroundThread

MAX_GAPS: Final = 1000
"""Gaps asked for: each is held against all host threads."""

MAX_GAPS_OF_ALL_RANKS: Final = 1 << 16
"""Of thousands of ranks fewer gaps are asked for: each takes almost a kilobyte."""


MIN_PAUSE = 3.0
"""Seconds between two answers from a trace that is being read, at least."""

PAUSE_RATIO = 4
"""Working them out takes at most one part in this many of the reading's time."""


class TraceSnapshot(Struct, frozen=True):
    """The `version`-th state of a trace that is being read; `ranks` are those that are read, None for all."""

    version: int
    trace: Trace
    ranks: tuple[int, ...] | None = None

    @classmethod
    def of(cls, version: int, trace: Trace, unread: frozenset[int]) -> TraceSnapshot:
        """A trace of whose `unread` parts nothing is read."""
        if not unread:
            return cls(version, trace)
        hosts = {number for number, host in enumerate(trace.hosts) if host.part not in unread}
        ranks = trace.ranks.select("rank", "host").iter_rows()
        return cls(version, trace, tuple(rank for rank, host in ranks if host in hosts))

    @property
    def ranks_read_text(self) -> str:
        """``12 of 64 ranks read``; nothing when all are."""
        return "" if self.ranks is None else f"{len(self.ranks):,} of {self.trace.ranks.height:,} ranks read"

    def question(self, analysis: str, window: Window, given: ChosenSettings = ()) -> AnalysisRequest:
        """An analysis of the ranks that are read, with what is `given` of its settings."""
        if self.ranks is not None:
            chosen = self.ranks if window.ranks is None else tuple(r for r in window.ranks if r in self.ranks)
            window = replace(window, ranks=chosen)
        return AnalysisRequest(self.version, analysis, window, given)


class AnalysisRequest(Struct, frozen=True):
    """An analysis of a trace (the `version`-th snapshot of it) in a window, with settings."""

    version: int
    analysis: str
    window: Window
    given: ChosenSettings = ()


def run_request(trace: Trace, question: AnalysisRequest, *, members: bool = False) -> Result:
    """The answer to a question about a trace, with the `members` of its rows if they are wanted."""
    analysis = get_analysis(question.analysis)
    given = configured_settings(analysis, [f"{name}={value}" for name, value in question.given])
    ranks = trace.ranks.height if question.window.ranks is None else len(question.window.ranks)
    options = Options(_count_gaps(ranks) if question.analysis == "gaps" else None, given, members)
    return fold_messages(render_note_columns(run_analysis(analysis, trace, question.window, options)))


def _count_gaps(ranks: int) -> int:
    """The number of gaps to ask for on so many ranks."""
    return max(LEAST_GAPS, min(MAX_GAPS, MAX_GAPS_OF_ALL_RANKS // max(ranks, 1)))


class AnalysisRunner:
    """Asks analyses for panes."""

    @dataclass
    class Answered(Message):
        """A result of this snapshot has come for `pane`, or the one line that says why there is none."""

        pane: str
        snapshot: TraceSnapshot
        question: AnalysisRequest
        result: Result | None
        failure: str = ""

    def __init__(self, target: MessagePump, background: BackgroundThread) -> None:
        self._target = target
        self._background = background
        self._asked: dict[str, AnalysisRequest] = {}
        self._known: LRUCache[AnalysisRequest, Result] = LRUCache(48)
        self._lock = Lock()  # looking something up moves it to the front, in a list that two threads would tear
        self._rests_until = 0.0

    @property
    def is_rerun_due(self) -> bool:
        """True if it is time to run the analyses again on a trace that is still being read."""
        return not self._background.busy and time.monotonic() >= self._rests_until

    def ask(self, pane: str, snapshot: TraceSnapshot, question: AnalysisRequest) -> bool:
        """Have `Answered` sent to the target; nothing when the pane has asked just this of the snapshot already.

        True when the answer has yet to be worked out.
        """
        if self._asked.get(pane) == question:
            return False
        self._asked[pane] = question
        with self._lock:
            known = self._known.get(question)
        if known is None:
            self._background.submit(
                f"analysis for {pane}",
                lambda: self._work(pane, snapshot, question),
                lambda why: self._target.post_message(self.Answered(pane, snapshot, question, None, why)),
            )
        else:
            self._target.post_message(self.Answered(pane, snapshot, question, known))
        return known is None

    def is_awaited(self, answer: Answered) -> bool:
        """True if the pane still waits for this result."""
        return self._asked.get(answer.pane) == answer.question

    def forget(self, pane: str) -> None:
        """The pane waits for nothing."""
        self._asked.pop(pane, None)

    def _work(self, pane: str, snapshot: TraceSnapshot, question: AnalysisRequest) -> None:
        with self._lock:
            result = self._known.get(question)  # answered to another pane since it was asked
        if result is None:
            result = self._run(snapshot.trace, question)
        self._target.post_message(self.Answered(pane, snapshot, question, result))

    def _run(self, trace: Trace, question: AnalysisRequest) -> Result:
        """The answer, kept for others who ask the same."""
        began = time.monotonic()
        try:
            result = run_request(trace, question)
            with self._lock:
                self._known[question] = result
        finally:
            ended = time.monotonic()
            self._rests_until = ended + max(MIN_PAUSE, PAUSE_RATIO * (ended - began))
        return result


TracePair = tuple[Trace, Trace]


class ComparisonRunner(BackgroundThread):
    """Compares two traces; the first of a pair is the baseline."""

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
