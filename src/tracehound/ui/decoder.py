"""The args of an event, decoded in the background: they lie in the file, and finding them may take 0.3 s.

Owns that. Knows no widget but the one that is told.
"""

from __future__ import annotations

from dataclasses import dataclass

from textual.message import Message
from textual.message_pump import MessagePump

from tracehound.errors import TracehoundError, printable
from tracehound.store import args
from tracehound.trace import Trace
from tracehound.ui.background import Background
from tracehound.ui.facts import Facts, carried


class Decoder:
    """Decodes the args of one event after the other; only the newest request counts."""

    @dataclass
    class Decoded(Message):
        """The args of an event have come, or the one line that says why not."""

        event: int
        args: Facts
        failure: str = ""

    def __init__(self, target: MessagePump, background: Background) -> None:
        self._target = target
        self._background = background

    def decode(self, trace: Trace, event: int) -> None:
        """Have `Decoded` sent to the target, unless another event follows at once."""
        self._background.submit("details", lambda: self._tell(self._decoded(trace, event)))

    def _decoded(self, trace: Trace, event: int) -> Decoded:
        try:
            return self.Decoded(event, carried(args(trace, event)))
        except TracehoundError as error:
            return self.Decoded(event, [], str(error))
        except Exception as error:  # noqa: BLE001 - one damaged event must not end the explorer
            return self.Decoded(event, [], printable(f"its args cannot be decoded: {type(error).__name__}: {error}"))

    def _tell(self, message: Message) -> None:
        self._target.post_message(message)
