"""What many messages of one sort carry, read of all at once: the instructions of an HLO module.

Owns where their ids, texts and lists of ids lie. Knows no field's meaning: whoever asks names its number.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracehound.formats.hlo.fields import Message, message, packed
from tracehound.formats.wire import BYTES, VARINT, Bytes, Rows, rounds


class Table:
    """The messages `[start, end)` of some bytes, in their order.

    `ids` has the id of each, -1 without one; `sound` says that all of every one made sense.
    """

    def __init__(
        self, file: Bytes, start: Rows, end: Rows, id_: int, sized: Sequence[int], listed: Sequence[int]
    ) -> None:
        """With the fields of these numbers: an id, what has a length (a text, a message), and lists of ids."""
        self._file, self._start, self._end = file, start, end
        self.ids: Rows = np.full(len(start), -1, np.int64)
        self.sound = True
        self._spans = {number: np.zeros((2, len(start)), np.int64) for number in sized}
        self._lists: dict[int, dict[int, list[int | tuple[int, int]]]] = {number: {} for number in listed}
        for now in rounds(file.words, start, end):
            self.sound &= bool(now.number.all())
            ids = now.where(id_, VARINT)
            self.ids[now.message[ids]] = now.value[ids].view(np.int64)
            for number, (low, high) in self._spans.items():
                here = now.where(number, BYTES)
                low[now.message[here]] = now.at[here]
                high[now.message[here]] = now.at[here] + now.value[here].view(np.int64)
            for number, lists in self._lists.items():
                plain, dense = now.where(number, VARINT), now.where(number, BYTES)
                begin, value = now.at, now.value.view(np.int64)
                for row, one in zip(now.message[plain].tolist(), value[plain].tolist(), strict=True):
                    lists.setdefault(row, []).append(one)
                packs = zip(begin[dense].tolist(), (begin + value)[dense].tolist(), strict=True)
                for row, pack in zip(now.message[dense].tolist(), packs, strict=True):
                    lists.setdefault(row, []).append(pack)

    def message(self, row: int) -> Message:
        """All of one."""
        return message(self._file, int(self._start[row]), int(self._end[row]))

    def span(self, number: int, row: int) -> tuple[int, int]:
        """Where the field of one lies; nowhere, `(0, 0)`, where it has none."""
        low, high = self._spans[number][:, row].tolist()
        return low, high

    def text(self, number: int, row: int) -> str:
        """The text of one."""
        return self._file.text(*self.span(number, row))

    def texts(self, number: int) -> list[str]:
        """The text of every one."""
        low, high = self._spans[number].tolist()
        return [self._file.text(a, b) for a, b in zip(low, high, strict=True)]

    def listed(self, number: int, row: int) -> list[int]:
        """The ids in a list of one: each is a field of its own, or many of them are one, packed."""
        found = list[int]()
        for part in self._lists[number].get(row, ()):
            found += packed(self._file, *part) if isinstance(part, tuple) else (part,)
        return found
