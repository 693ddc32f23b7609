"""Formatting of times, bytes, rates, shares and other numbers, and parsing of times and lists. Times are in ps."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from decimal import Decimal, localcontext
from typing import Final, Literal

from tracehound.errors import TracehoundError, printable

TimeUnit = Literal["auto", "ps", "ns", "us", "ms", "s"]

PS_PER_UNIT: dict[str, int] = {"ps": 1, "ns": 10**3, "us": 10**6, "ms": 10**9, "s": 10**12, "min": 60 * 10**12}
"""Picoseconds in each unit of time."""

PS_PER_US = PS_PER_UNIT["us"]
PS_PER_S = float(PS_PER_UNIT["s"])
"""A float, for rates: amounts times this would exceed whole numbers."""

MAX_TIME_PS = 2**63 - 1
"""The longest time that a frame can hold, ps."""

MAX_LIST_NUMBERS = 1 << 20
"""A list with more numbers than this is a typing error."""

_NUMBER_RANGE = re.compile(r"\s*([0-9]{1,9})\s*(?:-\s*([0-9]{1,9})\s*)?")
_UNIT_ALIASES = {"µs": "us", "μs": "us", "sec": "s", "m": "min"}
_QUANTITY = re.compile(r"\s*([+-]?(?:[0-9][0-9_,]*\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?)\s*([a-zµμ]+)\s*")
_BINARY_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_FLOPS_UNITS = ("FLOP/s", "kFLOP/s", "MFLOP/s", "GFLOP/s", "TFLOP/s", "PFLOP/s")
_DECIMAL_UNITS = ("B/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s")


SENTENCE_DIGITS: Final = 3
"""Significant digits of a number in a sentence: more suggest a precision that a reader cannot use."""

CELL_DIGITS: Final = 4
"""Significant digits of a number in a table cell, and of one that the user measures or compares with a limit."""


def format_duration(ps: int, unit: TimeUnit = "auto", digits: int = SENTENCE_DIGITS) -> str:
    """A duration with so many significant digits (``12.3 us``); in a fixed unit, with all digits."""
    if unit != "auto":
        return f"{format_in_unit(ps, unit)} {unit}"
    if ps == 0:
        return "0 s"
    if abs(ps) < PS_PER_UNIT["ns"]:
        return f"{ps} ps"
    for name in ("ns", "us", "ms"):
        text = _format_significant(ps / PS_PER_UNIT[name], digits)
        if abs(float(text)) < 1000:
            return f"{text} {name}"
    seconds = ps / PS_PER_UNIT["s"]
    return f"{seconds:,.0f} s" if abs(seconds) >= 9999.5 else f"{_format_significant(seconds, digits)} s"


def format_duration_in_words(ps: int) -> str:
    """A duration with three significant digits, for sentences (``12.3 us``)."""
    if ps == 0:
        return "0 s"
    for name in ("ps", "ns", "us", "ms"):
        text = _format_significant(ps / PS_PER_UNIT[name], 3) if name != "ps" else str(ps)
        if abs(float(text)) < 1000:
            return f"{text} {name}"
    seconds = ps / PS_PER_UNIT["s"]
    return f"{seconds:,.0f} s" if abs(seconds) >= 999.5 else f"{_format_significant(seconds, 3)} s"


def format_in_unit(ps: int, unit: Literal["ps", "ns", "us", "ms", "s"]) -> str:
    """A time as a number of `unit`, exact to the nanosecond (in ps, to the ps), with thousands separators."""
    if unit == "ps":
        return f"{ps:,}"
    places = {"ns": 0, "us": 3, "ms": 6, "s": 9}[unit]
    return _format_decimal(_round_half_even(ps * 10**places, PS_PER_UNIT[unit]), places)


def format_instant(ps: int, unit: TimeUnit = "auto") -> str:
    """A time since the origin: to the microsecond, or to the nanosecond within the first millisecond.

    So nearby events never read the same, however long the trace; `parse_duration` reads it back.
    """
    if unit != "auto":
        return f"{format_in_unit(ps, unit)} {unit}"
    if abs(ps) < PS_PER_UNIT["ms"]:
        return f"{_format_decimal(_round_half_even(ps, PS_PER_UNIT['ns']), 3)} us"
    micros = _round_half_even(ps, PS_PER_UNIT["us"])
    return f"{_format_decimal(micros, 3)} ms" if abs(ps) < PS_PER_UNIT["s"] else f"{_format_decimal(micros, 6)} s"


def format_exact_time(ps: int) -> str:
    """A time exact to the picosecond, in its shortest form: ``12.5ms``; `parse_duration` reads it back."""
    name = next((unit for unit in ("s", "ms", "us", "ns") if abs(ps) >= PS_PER_UNIT[unit]), "ps")
    whole, rest = divmod(abs(ps), PS_PER_UNIT[name])
    decimals = str(PS_PER_UNIT[name] + rest)[1:].rstrip("0")
    return f"{'-' if ps < 0 else ''}{whole}{'.' if decimals else ''}{decimals}{name}"


def format_bytes(count: float) -> str:
    """An amount of memory, in binary units: ``15.0 GiB``."""
    return _format_scaled(count, 1024, _BINARY_UNITS)


def format_bandwidth(per_second: float) -> str:
    """Bytes per second, in decimal units as vendors state bandwidth: ``26.4 GB/s``."""
    return _format_scaled(per_second, 1000, _DECIMAL_UNITS)


def format_flops(per_second: float) -> str:
    """Floating point operations per second: ``918 TFLOP/s``."""
    return _format_scaled(per_second, 1000, _FLOPS_UNITS)


def format_share(fraction: float, digits: int = SENTENCE_DIGITS) -> str:
    """A fraction as a percentage: ``13.4 %``. Less than 0.005 % but more than nothing is ``<0.01 %``.

    A part that would round to the whole is ``>99.9 %`` in a sentence. Cells (``13.37 %``) have two decimals, so that
    those of a column are aligned.
    """
    if 0 < fraction < 0.00005:
        return "<0.01 %"
    if digits >= CELL_DIGITS:
        return f"{fraction * 100:.2f} %"
    if 0.9995 <= fraction < 1:
        return ">99.9 %"
    if fraction == 0:
        return "0 %"
    return f"{_format_percentage(fraction, digits)} %"


def format_time_difference(ps: int, unit: TimeUnit = "auto", digits: int = SENTENCE_DIGITS) -> str:
    """A difference of two times, with its sign: ``+12.3 us``."""
    return f"{'+' * (ps > 0)}{format_duration(ps, unit, digits)}"


MAX_GROWTH: Final = 1000
"""The growth, in multiples of the base, above which the base is next to nothing and no percentage is shown."""


def format_growth(fraction: float, digits: int = SENTENCE_DIGITS) -> str:
    """A difference as a percentage of its base, with its sign: ``+3.20 %``, ``+936 %``.

    From 1,000 % on it has no decimals, and growth by more than a thousand times the base is ``+>100,000 %``: so a
    column has one spelling and stays narrow.
    """
    if fraction > MAX_GROWTH:
        return f"+>{MAX_GROWTH * 100:,} %"
    if fraction >= MAX_GROWTH / 100:
        return f"+{fraction * 100:,.0f} %"
    if 0 < abs(fraction) < 0.00005:
        return f"{'+' if fraction > 0 else '-'}<0.01 %"
    return f"{'+' * (fraction > 0)}{_format_percentage(fraction, digits)} %"


def format_count(number: int) -> str:
    """A whole number with thousands separators."""
    return f"{number:,}"


def count_noun(number: int, what: str, several: str = "") -> str:
    """A number with its noun: ``1 rank``, ``1,312 ranks``; `several` is an irregular plural, as in ``2 entries``."""
    return f"{number:,} {what if number == 1 else several or f'{what}s'}"


def count_hosts_and_processes(names: Collection[str]) -> str:
    """The number of machines, and of processes if there are more, from names such as ``node7: python (1234)``.

    Names of processes alone do not tell the number of machines.
    """
    machines = {name.partition(": ")[0] for name in names}
    processes = count_noun(len(names), "process", "processes")
    if len(names) > 1 and any(": " not in name and name.endswith(")") for name in names):
        return processes
    hosts = count_noun(len(machines), "host")
    return hosts if len(names) == len(machines) else f"{hosts}, {processes}"


def format_ranges(numbers: Iterable[int], most: int | None = 8) -> str:
    """Numbers as ranges: ``0-3, 7``. Of more than `most` ranges three are named: ``0, 8, 16 and 61 more``."""
    spans: list[list[int]] = []
    for each in sorted(set(numbers)):
        if spans and each == spans[-1][1] + 1:
            spans[-1][1] = each
        else:
            spans.append([each, each])
    words = [f"{low}" if low == high else f"{low}-{high}" for low, high in spans]
    if most is None or len(words) <= most:
        return ", ".join(words)
    left = sum(high - low + 1 for low, high in spans[_NAMED_RANGES:])
    return f"{', '.join(words[:_NAMED_RANGES])} and {left:,} more"


_NAMED_RANGES: Final = 3


def format_ranks(numbers: Collection[int]) -> str:
    """Ranks with their numbers: ``rank 3``, ``ranks 1, 4-7``."""
    return f"rank{'s' * (len(numbers) != 1)} {format_ranges(numbers)}"


def format_rank_list(ranks: Iterable[int]) -> str:
    """All ranks, as `--rank` takes them: ``0-3,7``."""
    return format_ranges(ranks, None).replace(" ", "")


def format_names(names: Iterable[str], most: int = 4) -> str:
    """Names of hosts, devices or files: ``a, b``; of more than `most` ``vm-0 to vm-63``, or ``a, b, c, d and 9 more``.

    The first and the last stand for all where the names differ in their numbers alone.
    """
    found = sorted(dict.fromkeys(names), key=_natural_order)
    if len(found) > most and len({_DIGITS.sub("0", name) for name in found}) == 1:
        return f"{found[0]} to {found[-1]}"
    return join_some(found, most)


_DIGITS: Final = re.compile(r"[0-9]+")


def _natural_order(name: str) -> tuple[tuple[str, int], ...]:
    """The key by which names sort as people number them: ``vm-9`` before ``vm-10``."""
    texts = _DIGITS.split(name)
    numbers = [int(digits[:_MOST_DIGITS]) for digits in _DIGITS.findall(name)]
    return tuple(zip(texts, [*numbers, -1], strict=True))


_MOST_DIGITS: Final = 18


def format_number(value: float, digits: int = 6) -> str:
    """A number without a unit, with at most so many significant digits; a whole number, such as an id, with all."""
    if isinstance(value, int):
        return str(value)
    return f"{value:,.0f}" if 10**digits <= abs(value) < 1e15 else f"{value:.{digits}g}"


def join_some(words: Sequence[str], most: int) -> str:
    """At most `most` words, and the number of others: ``a, b, c and 5 more``."""
    more = f" and {len(words) - most:,} more" if len(words) > most else ""
    return ", ".join(words[:most]) + more


def parse_duration(text: str) -> int:
    """A time with its unit (``10ms``, ``1.5 s``, ``250us``) in ps; a number without a unit is refused, except 0.

    Raises TracehoundError with the expected form.
    """
    if text.strip() == "0":
        return 0
    match = _QUANTITY.fullmatch(text)
    unit = _UNIT_ALIASES.get(match[2], match[2]) if match else ""
    if match is None or unit not in PS_PER_UNIT:
        raise TracehoundError(f"{text!r} is not a time", remedy="write a number and a unit: 12.5ms, 300us, 1s")
    with localcontext(prec=400):
        ps = (Decimal(match[1].replace(",", "").replace("_", "")) * PS_PER_UNIT[unit]).to_integral_value()
    if abs(ps) > MAX_TIME_PS:
        raise TracehoundError(f"{text!r} is longer than a trace can be", remedy="at most 9,223,372 s")
    return int(ps)


def parse_number_list(text: str, what: str) -> tuple[int, ...]:
    """The numbers of a list such as ``0,2-5``, sorted and distinct; `what` they number is for the message.

    Raises TracehoundError if it is not such a list.
    """
    found: set[int] = set()
    for part in text.split(","):
        match = _NUMBER_RANGE.fullmatch(part)
        first = int(match[1]) if match else 0
        last = int(match[2] or match[1]) if match else -1
        if not first <= last < first + MAX_LIST_NUMBERS:
            raise TracehoundError(f"{printable(text)!r} names no {what}", remedy="write numbers and ranges: 0,2-5")
        found.update(range(first, last + 1))
    return tuple(sorted(found))


def _format_decimal(number: int, places: int) -> str:
    """An integer number of units of the last of `places` decimals, with thousands separators."""
    whole, rest = divmod(abs(number), 10**places)
    sign = "-" if number < 0 else ""
    return f"{sign}{whole:,}.{rest:0{places}d}" if places else f"{sign}{whole:,}"


def _round_half_even(numerator: int, denominator: int) -> int:
    quotient, rest = divmod(numerator, denominator)
    return quotient + (2 * rest > denominator or (2 * rest == denominator and quotient % 2 == 1))


def _format_significant(value: float, digits: int) -> str:
    """`value` with `digits` significant digits, zeros kept; from 10**digits on, as a whole number."""
    whole = len(str(int(abs(value))))
    text = f"{value:.{max(0, digits - whole)}f}"
    carried = len(text.partition(".")[0].lstrip("-")) > whole
    return f"{value:.{max(0, digits - whole - 1)}f}" if carried else text


def _format_percentage(fraction: float, digits: int) -> str:
    """A fraction in percent, with at most two decimals."""
    text = _format_significant(fraction * 100, digits)
    return text if len(text.partition(".")[2]) <= 2 else f"{fraction * 100:.2f}"


def _format_scaled(value: float, step: int, names: tuple[str, ...]) -> str:
    if abs(value) < step:
        return f"{value:.0f} {names[0]}"
    for level, name in enumerate(names[1:], 1):
        text = _format_significant(value / step**level, 3)
        if abs(float(text)) < step or name == names[-1]:
            break
    return f"{text} {name}"
