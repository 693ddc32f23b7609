"""What is drawn in Unicode -> the same in ASCII, character for character, for terminals that have no more.

Owns the one table of replacements for reports and charts; nothing moves, because every replacement is one cell wide.
"""

from __future__ import annotations

import re

from rich.cells import cell_len

_SWAPS = str.maketrans("–…·∙•µμ×›█▓▒░▉▊▋▌▍▎▏▁▂▃▄▅▆▇┤├┬┴┼┌┐└┘│─", "-~-..uux>#=+-####......:::#+++++++++|-")
_QUADRANTS = re.compile("[▀▄▐▖▗▘▙▚▛▜▝▞▟]")
_OTHER = re.compile(r"[^\x00-\x7f]")


def in_ascii(text: str) -> str:
    """`text` without a character beyond ASCII; what has no likeness reads ``?``, and as wide as it was."""
    if text.isascii():
        return text
    return _OTHER.sub(lambda found: "?" * cell_len(found[0]), _QUADRANTS.sub("*", text.translate(_SWAPS)))
