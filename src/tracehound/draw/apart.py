"""Names shown together -> shorter names that can still be told apart.

Owns which part of a name stays when there is no room for all of it: of one alone (`fitted`), and of several that would
look alike (`apart`). Knows no table.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from os.path import commonprefix
from typing import Final

from rich.cells import cell_len, set_cell_size

from tracehound.errors import printable
from tracehound.units import middle, short_name

MOST = 400
"""Of more names no parts are compared: nobody sees them together, and each costs some microseconds."""

ROUNDS = 3
"""How often names that still look alike are looked at: fewer of them have more in common."""

WORDS = 3
"""Words that are looked at, at most, to tell names apart that have differently many."""

_TOKENS = re.compile(r"[^\W_]+|\W|_")
_WORDS = re.compile(r"\w+")


def fitted(text: str, width: int) -> str:
    """`text` in `width` cells of a terminal: kernels lose their templates first, then the middle is cut."""
    if cell_len(text) <= width:
        return text
    text = short_name(text)
    if cell_len(text) == len(text):
        return middle(text, width)
    return text if cell_len(text) <= width else set_cell_size(text, max(width - 1, 0)) + "…"


def filled(text: str, width: int) -> str:
    """The same, and blanks to the end of the width."""
    fit = fitted(text, width)
    return fit + " " * (width - cell_len(fit))


def apart(names: Iterable[str], width: int) -> Mapping[str, str]:
    """What stands for each of these names in `width` cells: what `fitted` makes of it, unless others would look alike.

    Those keep the parts in which they differ: of ``volta_sgemm_relu_medium_nn`` and ``volta_sgemm_relu_small_nn`` that
    is in their middle (``volta…medium…nn``), of instances of one template among its arguments (``sgemm<1024,true>``).
    Of paths that do not fit, the folders or scopes go first that most of them begin with (``…jvp(layer1)/mlp``). Names
    may still look alike where there is no room for these parts.
    """
    return _apart(tuple(sorted(set(names))), width)


@lru_cache(maxsize=64)
def _apart(names: tuple[str, ...], width: int) -> Mapping[str, str]:
    lead = _lead(names)
    led = [name for name in names if lead and name.startswith(lead) and cell_len(printable(name)) > width]
    rests = _cut(tuple(name.removeprefix(lead) for name in led), width - 1) if led else {}
    others = _cut(tuple(sorted(set(names).difference(led))), width)
    return {**others, **{f"{lead}{rest}": f"…{short.lstrip('…')}" for rest, short in rests.items()}}


def _lead(names: Sequence[str]) -> str:
    """The folders or scopes that paths begin with, which are most of the names; nothing where most are none."""
    firsts = Counter(name[: name.index("/") + 1] for name in names if "/" in name)
    first, many = max(firsts.items(), key=lambda item: item[1], default=("", 0))
    if many * 2 <= len(names) or len(names) == 1:
        return ""
    shared = commonprefix([name for name in names if name.startswith(first)])
    return shared[: shared.rfind("/") + 1]


def _cut(names: tuple[str, ...], width: int) -> Mapping[str, str]:
    best = cut = {name: fitted(printable(name), width) for name in names}
    if len(names) <= MOST:
        for _ in range(ROUNDS):
            groups = _alike(names, cut.__getitem__)
            cut = cut | {name: text for group in groups for name, text in _told(group, width).items()}
            best = max(best, cut, key=_different)
        if _different(best) < len(names):
            best = max(best, _together(names, width), key=_different)
    return best


def _together(names: Sequence[str], width: int) -> dict[str, str]:
    """The same, where names that were told apart by different parts look alike again: those are told apart as one."""
    cut = {name: fitted(printable(name), width) for name in names}
    families = {name: {name} for name in names}
    for _ in range(ROUNDS):
        for group in _alike(names, cut.__getitem__):
            family = set[str]().union(*(families[name] for name in group))
            families.update(dict.fromkeys(family, family))
            cut |= _told(sorted(family), width)
    return cut


def _different(cut: Mapping[str, str]) -> int:
    return len(set(cut.values()))


def _told(names: Sequence[str], width: int) -> dict[str, str]:
    """The same for names that would look alike."""
    bases, signs = {name: short_name(name) for name in names}, dict.fromkeys(names, "")
    for group in _alike(names, bases.__getitem__):
        found = _signs(group)
        signs.update(zip(group, (f"<{middle(sign, width // 2)}>" for sign in found), strict=True))
        base, _, functor = bases[group[0]].removesuffix("]").partition("[")
        if any(functor in sign.split(",") for sign in found):  # not that of all of them
            bases.update(dict.fromkeys(group, base))
    rooms = dict.fromkeys(bases.values(), width)
    for name in names:
        rooms[bases[name]] = min(rooms[bases[name]], width - len(signs[name]))
    if len(rooms) == 1:
        return {name: middle(bases[name], width - len(signs[name])) + signs[name] for name in names}
    different = sorted(rooms)
    short = dict(zip(different, _middles(different, [rooms[base] for base in different]), strict=True))
    return {name: short[bases[name]] + signs[name] for name in names}


def _alike(names: Iterable[str], key: Callable[[str], str]) -> list[list[str]]:
    """The names, two or more each, of which something is the same."""
    groups = (list(group) for _, group in groupby(sorted(names, key=key), key))
    return [group for group in groups if len(group) > 1]


def _signs(names: Sequence[str]) -> list[str]:
    """What of names that are instances of one template is different: the words in which they are not all alike."""
    tokens = [_TOKENS.findall(printable(name)) for name in names]
    if len({len(each) for each in tokens}) == 1:
        differ = [place for place, each in enumerate(zip(*tokens, strict=True)) if len(set(each)) > 1]
        return [",".join(each[place] for place in differ) for each in tokens]
    words = [_WORDS.findall(name[_shared(names) :]) for name in names]
    for many in range(1, WORDS + 1):
        signs = [",".join(each[:many]) for each in words]
        if len(set(signs)) == len(signs):
            break
    return signs


def _middles(names: Sequence[str], widths: Sequence[int]) -> list[str]:
    """Names cut, each to its width, on both sides of where they differ, which stays."""
    first = _shared(names)
    rest = [name[first:] for name in names]
    last = min(_shared([text[::-1] for text in rest]), *(len(text) for text in rest))
    short = list(names)
    for part, marked in ((3, True), (0, True), (0, False)):  # the fewer words are around, the more of these stay
        short = [
            _around(name, first, len(name) - last, width, width // part if part else 0, marked=marked)
            for name, width in zip(names, widths, strict=True)
        ]
        if len(set(short)) == len(set(names)):
            break
    return short


def _around(name: str, first: int, last: int, width: int, outside: int, *, marked: bool) -> str:
    """A name in which ``[first, last)`` stays, and of what is around it the outer ends, `outside` cells at least.

    What is left out at an end of the name has a mark there, where it is to be `marked` whatever that costs.
    """
    if len(name) <= width:
        return name
    before, after = (first > 0, last < len(name)) if marked and width > _MARKS else (False, False)
    kept = middle(name[first:last], width - max(min(outside, first + len(name) - last), before + after))
    room = width - len(kept)
    end = max(room // 3, room - first, int(after))  # what the beginning leaves
    tail = name[last:] if len(name) - last <= end else "…" + name[len(name) - max(0, end - 1) :]
    tail = "" if end < 1 else tail
    head = name[:first] if first <= room - len(tail) else name[: max(0, room - len(tail) - 1)] + "…"
    return head + kept + tail if room > 0 else middle(kept, width)


_MARKS: Final = 2
"""Cells of the marks at both ends of a name."""


def _shared(names: Sequence[str]) -> int:
    """How many characters names begin with that are the same, up to the beginning of a word."""
    same = len(commonprefix(list(names)))
    while same > 0 and any(same < len(name) and name[same].isalnum() and name[same - 1].isalnum() for name in names):
        same -= 1
    return same
