"""Numbers to words, and words to numbers.

Owns how times, bytes, rates, shares and kernel names are written. Knows nothing of tables or colours. Times are ps.
"""

from __future__ import annotations

import re
from typing import Literal

from tracehound.errors import TracehoundError, printable

TimeUnit = Literal["auto", "ps", "ns", "us", "ms", "s"]

PS: dict[str, int] = {"ps": 1, "ns": 10**3, "us": 10**6, "ms": 10**9, "s": 10**12, "min": 60 * 10**12}
"""Picoseconds in each unit of time that people write."""

_ALIASES = {"µs": "us", "μs": "us", "sec": "s", "m": "min"}
_QUANTITY = re.compile(r"\s*([+-]?(?:\d[\d_,]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([a-zµμ]*)\s*")
_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_DECIMAL = ("B/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s")


def duration(ps: int, unit: TimeUnit = "auto") -> str:
    """A length of time with four significant digits (``12.34 us``); in a fixed unit, with all of them."""
    if unit != "auto":
        return f"{fixed(ps, unit)} {unit}"
    if ps == 0:
        return "0 s"
    size = abs(ps)
    for name in ("ns", "us", "ms", "s"):
        if size < 1000 * PS[name] or name == "s":
            break
    if size < PS["ns"]:
        return f"{ps} ps"
    value = ps / PS[name]
    if name == "s" and abs(value) >= 1000:
        return f"{value:,.0f} s"
    digits = max(0, 3 - len(str(int(abs(value)))) + 1) if abs(value) < 1000 else 0
    text = f"{value:.{digits}f}"
    return f"{text} {name}"


def fixed(ps: int, unit: Literal["ps", "ns", "us", "ms", "s"]) -> str:
    """A time as a number of `unit`, exact to the nanosecond (or to the ps, in ps), thousands separated."""
    if unit == "ps":
        return f"{ps:,}"
    places = {"ns": 0, "us": 3, "ms": 6, "s": 9}[unit]
    scaled = _round_half_even(ps * 10**places, PS[unit])
    whole, rest = divmod(abs(scaled), 10**places)
    sign = "-" if scaled < 0 else ""
    return f"{sign}{whole:,}.{rest:0{places}d}" if places else f"{sign}{whole:,}"


def _round_half_even(numerator: int, denominator: int) -> int:
    quotient, rest = divmod(numerator, denominator)
    return quotient + (2 * rest > denominator or (2 * rest == denominator and quotient % 2 == 1))


def instant(ps: int) -> str:
    """A point in time since the origin, in the unit that keeps it readable, to the digit that a person can use."""
    return duration(ps)


def bytes_(count: float) -> str:
    """An amount of memory, in binary units: ``15.0 GiB``."""
    return _scaled(count, 1024, _BINARY)


def rate(per_second: float) -> str:
    """Bytes per second, in decimal units as vendors state bandwidth: ``26.4 GB/s``."""
    return _scaled(per_second, 1000, _DECIMAL)


def _scaled(value: float, step: int, names: tuple[str, ...]) -> str:
    size, level = abs(value), 0
    while size >= step and level < len(names) - 1:
        size /= step
        level += 1
    number = value / step**level
    return f"{number:.0f} {names[level]}" if level == 0 or abs(number) >= 100 else f"{number:.3g} {names[level]}"


def share(fraction: float) -> str:
    """A fraction as a percentage: ``13.37 %``; what is below 0.005 % but not nothing reads ``<0.01 %``."""
    if 0 < fraction < 0.00005:
        return "<0.01 %"
    return f"{fraction * 100:.2f} %"


def count(number: int) -> str:
    """A whole number with its thousands separated."""
    return f"{number:,}"


def parse_duration(text: str) -> int:
    """A time that a person wrote (``10ms``, ``1.5 s``, ``250us``) in ps; a bare number is refused, it has no unit.

    Raises TracehoundError with what was expected.
    """
    match = _QUANTITY.fullmatch(text)
    unit = _ALIASES.get(match[2], match[2]) if match else ""
    if match is None or unit not in PS:
        raise TracehoundError(f"{text!r} is not a time", remedy="write a number and a unit: 12.5ms, 300us, 1s")
    whole, _, fraction = match[1].replace(",", "").replace("_", "").partition(".")
    if "e" in match[1].lower():
        return round(float(match[1].replace(",", "").replace("_", "")) * PS[unit])
    sign = -1 if whole.startswith("-") else 1
    digits = int((whole.lstrip("+-") or "0") + fraction)
    return sign * _round_half_even(digits * PS[unit], 10 ** len(fraction))


_TEMPLATE = re.compile(r"<[^<>]*>")
_FUNCTOR = re.compile(r"(\w*(?:Functor|_kernel_cuda|_functor|Ops?))\b")
_WRAPPERS = re.compile(r"\(anonymous namespace\)::|at::native::|c10::|std::|^void |^static ")


def short_name(name: str, width: int = 0) -> str:
    """A kernel's name as people say it: without return type, arguments, template arguments and namespaces.

    ``void at::native::vectorized_elementwise_kernel<4, ...>(int)`` becomes ``vectorized_elementwise_kernel``. A functor
    inside the template, which is what tells two elementwise kernels apart, is kept in brackets. With `width` it is cut
    in the middle, so that both ends stay.
    """
    name = printable(name)
    if name.endswith(")") and "(" in name and ("::" in name or "<" in name or name.startswith("void ")):
        name = _bare(name)
    return middle(name, width) if width else name


def _bare(name: str) -> str:
    functor = (
        re.search(r"(\w*(?:Functor|_kernel_cuda|_functor|Op|Ops))\b", name[name.find("<") + 1 :])
        if "<" in name
        else None
    )
    text, before = _WRAPPERS.sub("", name), None
    while text != before:
        before, text = text, _TEMPLATE.sub("", text)
    text = text.split("(", 1)[0].rsplit("::", 1)[-1].strip() or name
    return f"{text}[{functor[1]}]" if functor and functor[1] not in text else text


def middle(text: str, width: int) -> str:
    """`text` cut to `width` characters in its middle, where it is longer."""
    if len(text) <= width:
        return text
    if width <= 3:
        return text[:width]
    tail = (width - 1) // 3
    return f"{text[: width - 1 - tail]}…{text[len(text) - tail :]}" if tail else f"{text[: width - 1]}…"
