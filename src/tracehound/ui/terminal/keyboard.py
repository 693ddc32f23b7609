"""What a terminal sends -> keys, pastes and moves of the mouse, whatever bytes that is.

Owns that no bytes end the program, and that what is pasted is text: bytes of another encoding are U+FFFD; a sequence
that Textual takes for a key and cannot read is dropped, as are control characters in a paste, of which it makes keys.
"""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Iterator

from textual._xterm_parser import BRACKETED_PASTE_END, BRACKETED_PASTE_START, XTermParser
from textual.message import Message

_LENGTH = len(BRACKETED_PASTE_START)
"""Characters of the sequence around a paste, at its start as at its end."""


class Keyboard:
    """Reads what is typed, piece by piece."""

    def __init__(self) -> None:
        self._decoder = getincrementaldecoder("utf-8")(errors="replace")
        self._parser = XTermParser()
        self._last = ""
        self._pasted: list[str] | None = None

    def feed(self, data: bytes) -> Iterator[Message]:
        """What these bytes, after all before them, say."""
        for character in self._decoder.decode(data):
            self._last = (self._last + character)[-_LENGTH:]
            if self._pasted is None:
                yield from self._read(character)
                self._pasted = [] if self._last == BRACKETED_PASTE_START else None
            else:
                self._pasted.append(character)
                if self._last == BRACKETED_PASTE_END:
                    yield from self._paste("".join(self._pasted[:-_LENGTH]))
                    self._pasted = None

    def tick(self) -> Iterator[Message]:
        """What is said by nothing following: an escape character is the key itself."""
        for message in self._parser.tick():
            self._last = ""  # nor does it begin a paste any more
            yield message

    def _read(self, character: str) -> list[Message]:
        try:
            return list(self._parser.feed(character))
        except (ValueError, ArithmeticError):  # numbers that are none, or none of a character
            self._parser = XTermParser()  # one that has failed reads nothing any more
            return []

    def _paste(self, text: str) -> Iterator[Message]:
        """A paste, when it is there to its end."""
        for character in text:
            if character.isprintable() or character in "\t\r\n":
                yield from self._read(character)
        for character in BRACKETED_PASTE_END:
            yield from self._read(character)
