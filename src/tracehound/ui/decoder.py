"""What is known of an event, read in the background: its args lie in the file, which may be gzip.

Owns a thread for that, since an analysis may keep the other one. Knows no widget but the one that is told.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from textual.message import Message
from textual.message_pump import MessagePump

from tracehound.errors import TracehoundError, printable
from tracehound.formats.inflate import Section
from tracehound.store import Sections, args
from tracehound.trace import Trace
from tracehound.ui.background import Background
from tracehound.ui.describe import describe
from tracehound.ui.facts import Facts, carried, facts
from tracehound.ui.view import View


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

    def prepare(self, path: Path) -> None:
        """See to it that the args of any event of a file are found at once, some seconds from now."""

        def work() -> None:
            with suppress(TracehoundError):
                self._sections.build(path)

        self._builder.submit(str(path), work)

    def describe(self, trace: Trace, event: int) -> None:
        """Have `Described` sent to the target, unless another event follows at once."""

        def work() -> None:
            try:
                words = describe(trace, View(event=event))
            except Exception as error:  # noqa: BLE001 - one damaged event must not end the explorer
                words = (printable(f"cannot be read: {type(error).__name__}: {error}"),)
            self._target.post_message(self.Described(event, words))

        self.submit("words", work)

    def decode(self, trace: Trace, event: int) -> None:
        """Have `Decoded` sent to the target, first without the args, unless another event follows at once."""
        self.submit("details", lambda: self._decode(trace, event))

    def _decode(self, trace: Trace, event: int) -> None:
        known: Facts = ()
        try:
            known = facts(trace, event)
            self._target.post_message(self.Decoded(event, known, None))
            message = self.Decoded(event, known, carried(args(trace, event, self._sections.read)))
        except TracehoundError as error:
            message = self.Decoded(event, known, (), str(error))
        except Exception as error:  # noqa: BLE001 - one damaged event must not end the explorer
            failure = printable(f"its args cannot be decoded: {type(error).__name__}: {error}")
            message = self.Decoded(event, known, (), failure)
        self._target.post_message(message)
        self.prepare(trace.parts[event >> 32].path)
