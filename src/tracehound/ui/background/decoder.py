"""What is known of an event, read in the background: its args lie in the file, which may be gzip.

Owns a thread for that, since an analysis may keep the other one. Knows no widget but the one that is told.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from textual.message import Message
from textual.message_pump import MessagePump

from tracehound.errors import TracehoundError
from tracehound.formats.inflate import Section
from tracehound.ids import part_of
from tracehound.store import Sections, args
from tracehound.trace import Part, Trace
from tracehound.ui.background.threads import Background
from tracehound.ui.state.view import View
from tracehound.ui.wording.describe import describe
from tracehound.ui.wording.facts import Facts, carried, facts


class Decoder(Background):
    """Reads of one event after the other; only the newest request of a sort counts."""

    @dataclass
    class Described(Message):
        """What is said of an event in one line has come."""

        event: int
        words: tuple[str, ...]

    @dataclass
    class Decoded(Message):
        """The facts of an event have come, and its args (None: not yet), or the one line that says why not."""

        event: int
        facts: Facts
        args: Facts | None
        failure: str = ""

    @dataclass
    class Unprepared(Message):
        """The args of a file will not be found at once, and why."""

        words: str

    def __init__(self, target: MessagePump) -> None:
        super().__init__()
        self._target = target
        self._builder = Background()
        self._sections = Sections()

    @property
    def section(self) -> Section:
        """What gives bytes of files, from their middle as well."""
        return self._sections.read

    def close(self) -> None:
        """Forget what waits, and make no more files quick."""
        super().close()
        self._builder.close()

    def prepare(self, part: Part) -> None:
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

        self.submit("reading the event", lambda: tell(*describe(trace, View(event=event))), tell)

    def decode(self, trace: Trace, event: int) -> None:
        """Have `Decoded` sent to the target, first without the args, unless another event follows at once."""
        known: Facts = ()

        def tell(found: Facts | None, failure: str = "") -> None:
            self._target.post_message(self.Decoded(event, known, found, failure))

        def work() -> None:
            nonlocal known
            known = facts(trace, event)
            tell(None)
            tell(carried(args(trace, event, self._sections.read)))
            self.prepare(trace.parts[part_of(event)])

        self.submit("decoding the args", work, lambda why: tell((), why))
