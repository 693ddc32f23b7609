"""What the first and the last bytes of a JSON trace claim, for those who list files without reading them.

Owns reading the ends of a file and finding single values in them. Knows no format.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

from tracehound.formats.inflate import head, opened, section

END: Final = 64 << 10
"""How many bytes an end has."""


def ends(path: Path) -> str:
    """The first `END` inflated bytes of a file and, unless it is gzip, the last ones. Raises as `opened`."""
    first, last = head(path, END), b""
    with opened(path) as stream:
        plain = not stream.compressed
    if plain and (size := path.stat().st_size) > END:
        last = section(path, max(END, size - END), END)
    return (first + b"\n" + last).decode("utf-8", "replace")


def value_of(key: str, text: str) -> object:
    """The first value of `key` in the text.

    Where the text ends inside it, or it is no JSON, an object's first numbers and strings; None without any.
    """
    match = re.search(rf'"{re.escape(key)}"\s*:\s*', text)
    if match is None:
        return None
    try:
        value: object = json.JSONDecoder(strict=False).raw_decode(text, match.end())[0]
    except (ValueError, RecursionError):
        return _partly(text[match.end() :])
    return value


_SIMPLE: Final = re.compile(r'\s*[{,]\s*"([^"\\]*)"\s*:\s*(?:(-?\d{1,18})(?=\s*[,}])|"([^"\\]*)")')


def _partly(text: str) -> dict[str, object] | None:
    """The first fields of the object at the start of the text, up to one that is neither a number nor plain text."""
    found: dict[str, object] = {}
    at = 0
    while match := _SIMPLE.match(text, at):
        key, number, word = match.groups()
        found[key] = word if number is None else int(number)
        at = match.end()
    return found or None
