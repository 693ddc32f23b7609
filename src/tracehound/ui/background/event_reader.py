"""Reads one event in the background: its args are in the file, which may be gzip.

Owns a thread for that, since an analysis may occupy the other one. Knows no widget but the one that gets the messages.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from textual.message import Message
from textual.message_pump import MessagePump

from tracehound.errors import TracehoundError
from tracehound.formats.inflate import SectionReader
from tracehound.model.ids import file_index_of
from tracehound.model.trace import FileFrames, Trace
from tracehound.store import CheckpointedFiles, read_event_args
from tracehound.ui.background.background_thread import BackgroundThread
from tracehound.ui.state.view import View
from tracehound.ui.wording.event_facts import EventFacts, args_facts, describe_selection, event_facts


class EventReader(BackgroundThread):
    """Reads of one event after the other; only the newest request of a sort counts."""

    @dataclass
    class Described(Message):
        """The one-line description of an event."""

        event: int
        words: tuple[str, ...]

    @dataclass
    class Decoded(Message):
        """The facts of an event have come, and its args (None: not yet), or the one line that says why not."""

        event: int
        facts: EventFacts
        args: EventFacts | None
        failure: str = ""

    @dataclass
    class Unprepared(Message):
        """The args of a file will not be found at once, and why."""

        words: str

    def __init__(self, target: MessagePump) -> None:
        super().__init__()
        self._target = target
        self._builder = BackgroundThread()
        self._sections = CheckpointedFiles()

    @property
    def section_reader(self) -> SectionReader:
        """Reader of a section of a file, from its middle, too."""
        return self._sections.read

    def close(self) -> None:
        """Forget what waits, and make no more files quick."""
        super().close()
        self._builder.close()

    def prepare_args(self, part: FileFrames) -> None:
        """See to it that the args of any event of a file are found at once, some seconds from now."""

        def work() -> None:
            with suppress(TracehoundError):  # who asks for args is told
                self._sections.build(part.path, part.state)

        def tell(why: str) -> None:
            self._target.post_message(self.Unprepared(why))

        self._builder.submit(f"preparing {part.path}", work, tell)

    def describe(self, trace: Trace, event: int) -> None:
        """Have `Described` sent to the target, unless another event follows at once."""

        def tell(*words: str) -> None:
            self._target.post_message(self.Described(event, words))

        self.submit("reading the event", lambda: tell(*describe_selection(trace, View(event=event))), tell)

    def decode(self, trace: Trace, event: int) -> None:
        """Have `Decoded` sent to the target, first without the args, unless another event follows at once."""
        known: EventFacts = ()

        def tell(found: EventFacts | None, failure: str = "") -> None:
            self._target.post_message(self.Decoded(event, known, found, failure))

        def work() -> None:
            nonlocal known
            known = event_facts(trace, event)
            tell(None)
            tell(args_facts(read_event_args(trace, event, self._sections.read)))
            self.prepare_args(trace.parts[file_index_of(event)])

        self.submit("decoding the args", work, lambda why: tell((), why))
