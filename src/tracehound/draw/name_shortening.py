"""Shorter names: one name cut to a width (`shorten_name`), and several cut so that they stay distinct."""

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
from tracehound.model.short_names import cut_middle, shorten_kernel_name

MOST_COMPARED_NAMES = 400
"""Longer lists are not compared: they are never visible together, and each name takes microseconds."""

COMPARISON_ROUNDS = 3
"""Rounds of comparing names that still look alike; in each round they have more in common."""

MOST_COMPARED_WORDS = 3
"""Words compared, at most, to tell names with different numbers of words apart."""

_TOKEN_PATTERN = re.compile(r"[^\W_]+|\W|_")
_WORD_PATTERN = re.compile(r"\w+")


def shorten_name(text: str, width: int) -> str:
    """`text` in `width` cells of a terminal. Kernels lose their templates first, then the middle is cut."""
    if cell_len(text) <= width:
        return text
    text = shorten_kernel_name(text)
    if cell_len(text) == len(text):
        return cut_middle(text, width)
    return text if cell_len(text) <= width else set_cell_size(text, max(width - 1, 0)) + "…"


def shorten_and_pad(text: str, width: int) -> str:
    """The shortened text, padded with blanks to the width."""
    short = shorten_name(text, width)
    return short + " " * (width - cell_len(short))


def shorten_names_distinctly(names: Iterable[str], width: int) -> Mapping[str, str]:
    """The short form of each name in `width` cells: that of `shorten_name`, unless several would look alike.

    Those keep the parts in which they differ: ``volta_sgemm_relu_medium_nn`` and ``volta_sgemm_relu_small_nn`` differ
    in the middle (``volta…medium…nn``), instances of one template in their arguments (``sgemm<1024,true>``). Paths that
    do not fit lose the folders or scopes that most of them share (``…jvp(layer1)/mlp``). Names can still look alike if
    there is no room for these parts.
    """
    return _shorten_distinctly_cached(tuple(sorted(set(names))), width)


@lru_cache(maxsize=64)
def _shorten_distinctly_cached(names: tuple[str, ...], width: int) -> Mapping[str, str]:
    prefix = _common_path_prefix(names)
    with_prefix = [name for name in names if prefix and name.startswith(prefix) and cell_len(printable(name)) > width]
    without_prefix = (
        _shorten_names(tuple(name.removeprefix(prefix) for name in with_prefix), width - 1) if with_prefix else {}
    )
    others = _shorten_names(tuple(sorted(set(names).difference(with_prefix))), width)
    return {**others, **{f"{prefix}{rest}": f"…{short.lstrip('…')}" for rest, short in without_prefix.items()}}


def _common_path_prefix(names: Sequence[str]) -> str:
    """The folders or scopes that most names begin with; empty if most names are no paths."""
    firsts = Counter(name[: name.index("/") + 1] for name in names if "/" in name)
    first, many = max(firsts.items(), key=lambda item: item[1], default=("", 0))
    if many * 2 <= len(names) or len(names) == 1:
        return ""
    shared = commonprefix([name for name in names if name.startswith(first)])
    return shared[: shared.rfind("/") + 1]


def _shorten_names(names: tuple[str, ...], width: int) -> Mapping[str, str]:
    best = cut = {name: shorten_name(printable(name), width) for name in names}
    if len(names) <= MOST_COMPARED_NAMES:
        for _ in range(COMPARISON_ROUNDS):
            groups = _group_equal_names(names, cut.__getitem__)
            cut = cut | {name: text for group in groups for name, text in _shorten_similar_names(group, width).items()}
            best = max(best, cut, key=_count_distinct)
        if _count_distinct(best) < len(names):
            best = max(best, _shorten_by_families(names, width), key=_count_distinct)
    return best


def _shorten_by_families(names: Sequence[str], width: int) -> dict[str, str]:
    """Short forms where names that differ in other parts still look alike: these are compared as one family."""
    cut = {name: shorten_name(printable(name), width) for name in names}
    families = {name: {name} for name in names}
    for _ in range(COMPARISON_ROUNDS):
        for group in _group_equal_names(names, cut.__getitem__):
            family = set[str]().union(*(families[name] for name in group))
            families.update(dict.fromkeys(family, family))
            cut |= _shorten_similar_names(sorted(family), width)
    return cut


def _count_distinct(cut: Mapping[str, str]) -> int:
    return len(set(cut.values()))


def _shorten_similar_names(names: Sequence[str], width: int) -> dict[str, str]:
    """Short forms of names that would look alike."""
    bases, differences = {name: shorten_kernel_name(name) for name in names}, dict.fromkeys(names, "")
    for group in _group_equal_names(names, bases.__getitem__):
        found = _differing_words(group)
        differences.update(zip(group, (f"<{cut_middle(difference, width // 2)}>" for difference in found), strict=True))
        base, _, functor = bases[group[0]].removesuffix("]").partition("[")
        if any(functor in difference.split(",") for difference in found):  # it differs among these names
            bases.update(dict.fromkeys(group, base))
    widths = dict.fromkeys(bases.values(), width)
    for name in names:
        widths[bases[name]] = min(widths[bases[name]], width - len(differences[name]))
    if len(widths) == 1:
        return {name: cut_middle(bases[name], width - len(differences[name])) + differences[name] for name in names}
    different = sorted(widths)
    short = dict(
        zip(different, _shorten_around_differences(different, [widths[base] for base in different]), strict=True)
    )
    return {name: short[bases[name]] + differences[name] for name in names}


def _group_equal_names(names: Iterable[str], key: Callable[[str], str]) -> list[list[str]]:
    """Groups of two or more names with equal keys."""
    groups = (list(group) for _, group in groupby(sorted(names, key=key), key))
    return [group for group in groups if len(group) > 1]


def _differing_words(names: Sequence[str]) -> list[str]:
    """The words in which instances of one template differ, joined for each name."""
    tokens = [_TOKEN_PATTERN.findall(printable(name)) for name in names]
    if len({len(each) for each in tokens}) == 1:
        differ = [position for position, each in enumerate(zip(*tokens, strict=True)) if len(set(each)) > 1]
        return [",".join(each[position] for position in differ) for each in tokens]
    words = [_WORD_PATTERN.findall(name[_common_prefix_length(names) :]) for name in names]
    for many in range(1, MOST_COMPARED_WORDS + 1):
        differences = [",".join(each[:many]) for each in words]
        if len(set(differences)) == len(differences):
            break
    return differences


def _shorten_around_differences(names: Sequence[str], widths: Sequence[int]) -> list[str]:
    """Names cut to their widths on both sides of the part in which they differ, which stays."""
    first = _common_prefix_length(names)
    rest = [name[first:] for name in names]
    last = min(_common_prefix_length([text[::-1] for text in rest]), *(len(text) for text in rest))
    short = list(names)
    for part, marked in ((3, True), (0, True), (0, False)):  # less context leaves more of the differing part
        short = [
            _shorten_around_range(name, first, len(name) - last, width, width // part if part else 0, marked=marked)
            for name, width in zip(names, widths, strict=True)
        ]
        if len(set(short)) == len(set(names)):
            break
    return short


def _shorten_around_range(name: str, first: int, last: int, width: int, outside: int, *, marked: bool) -> str:
    """A name in which ``[first, last)`` stays, with at least `outside` cells of its ends.

    If `marked`, an omission at an end of the name always gets a mark.
    """
    if len(name) <= width:
        return name
    before, after = (first > 0, last < len(name)) if marked and width > _ELLIPSIS_CELLS else (False, False)
    middle = cut_middle(name[first:last], width - max(min(outside, first + len(name) - last), before + after))
    room = width - len(middle)
    end = max(room // 3, room - first, int(after))  # cells left for the end of the name
    tail = name[last:] if len(name) - last <= end else "…" + name[len(name) - max(0, end - 1) :]
    tail = "" if end < 1 else tail
    head = name[:first] if first <= room - len(tail) else name[: max(0, room - len(tail) - 1)] + "…"
    return head + middle + tail if room > 0 else cut_middle(middle, width)


_ELLIPSIS_CELLS: Final = 2
"""Cells of the marks at both ends of a name."""


def _common_prefix_length(names: Sequence[str]) -> int:
    """Length of the common prefix of names, up to the beginning of a word."""
    same = len(commonprefix(list(names)))
    while same > 0 and any(same < len(name) and name[same].isalnum() and name[same - 1].isalnum() for name in names):
        same -= 1
    return same
