"""Numbers to words, and words to numbers.

Owns how times, bytes, rates, shares and kernel names are written. Knows nothing of tables or colours. Times are ps.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from decimal import Decimal, localcontext
from typing import Final, Literal

from tracehound.errors import TracehoundError, printable

TimeUnit = Literal["auto", "ps", "ns", "us", "ms", "s"]

PS: dict[str, int] = {"ps": 1, "ns": 10**3, "us": 10**6, "ms": 10**9, "s": 10**12, "min": 60 * 10**12}
"""Picoseconds in each unit of time that people write."""

PS_PER_US = PS["us"]
PS_PER_S = float(PS["s"])
"""A float, for rates: amounts times this many exceed whole numbers."""

LONGEST = 2**63 - 1
"""The longest time that a frame can hold, ps."""

MOST_NUMBERS = 1 << 20
"""More numbers than this in one list are a slip of the hand."""

_RANGE = re.compile(r"\s*([0-9]{1,9})\s*(?:-\s*([0-9]{1,9})\s*)?")
_ALIASES = {"µs": "us", "μs": "us", "sec": "s", "m": "min"}
_QUANTITY = re.compile(r"\s*([+-]?(?:[0-9][0-9_,]*\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?)\s*([a-zµμ]+)\s*")
_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_FLOPS = ("FLOP/s", "kFLOP/s", "MFLOP/s", "GFLOP/s", "TFLOP/s", "PFLOP/s")
_DECIMAL = ("B/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s")


def duration(ps: int, unit: TimeUnit = "auto") -> str:
    """A length of time with four significant digits (``12.34 us``); in a fixed unit, with all of them."""
    if unit != "auto":
        return f"{fixed(ps, unit)} {unit}"
    if ps == 0:
        return "0 s"
    if abs(ps) < PS["ns"]:
        return f"{ps} ps"
    for name in ("ns", "us", "ms"):
        text = _significant(ps / PS[name], 4)
        if abs(float(text)) < 1000:
            return f"{text} {name}"
    seconds = ps / PS["s"]
    return f"{seconds:,.0f} s" if abs(seconds) >= 9999.5 else f"{_significant(seconds, 4)} s"


def fixed(ps: int, unit: Literal["ps", "ns", "us", "ms", "s"]) -> str:
    """A time as a number of `unit`, exact to the nanosecond (or to the ps, in ps), thousands separated."""
    if unit == "ps":
        return f"{ps:,}"
    places = {"ns": 0, "us": 3, "ms": 6, "s": 9}[unit]
    return _decimal(_round_half_even(ps * 10**places, PS[unit]), places)


def instant(ps: int, unit: TimeUnit = "auto") -> str:
    """A point in time since the origin: to the microsecond, or to the nanosecond within the first millisecond.

    So two events a step apart never read the same, however long the trace; `parse_duration` reads it back.
    """
    if unit != "auto":
        return f"{fixed(ps, unit)} {unit}"
    if abs(ps) < PS["ms"]:
        return f"{_decimal(_round_half_even(ps, PS['ns']), 3)} us"
    micros = _round_half_even(ps, PS["us"])
    return f"{_decimal(micros, 3)} ms" if abs(ps) < PS["s"] else f"{_decimal(micros, 6)} s"


def exact(ps: int) -> str:
    """A time to the picosecond, as short as that can be written: ``12.5ms``; `parse_duration` reads it back."""
    name = next((unit for unit in ("s", "ms", "us", "ns") if abs(ps) >= PS[unit]), "ps")
    whole, rest = divmod(abs(ps), PS[name])
    decimals = str(PS[name] + rest)[1:].rstrip("0")
    return f"{'-' if ps < 0 else ''}{whole}{'.' if decimals else ''}{decimals}{name}"


def bytes_(count: float) -> str:
    """An amount of memory, in binary units: ``15.0 GiB``."""
    return _scaled(count, 1024, _BINARY)


def rate(per_second: float) -> str:
    """Bytes per second, in decimal units as vendors state bandwidth: ``26.4 GB/s``."""
    return _scaled(per_second, 1000, _DECIMAL)


def flops(per_second: float) -> str:
    """Floating point operations per second: ``918 TFLOP/s``."""
    return _scaled(per_second, 1000, _FLOPS)


def share(fraction: float) -> str:
    """A fraction as a percentage: ``13.37 %``; what is below 0.005 % but not nothing reads ``<0.01 %``."""
    if 0 < fraction < 0.00005:
        return "<0.01 %"
    return f"{fraction * 100:.2f} %"


def difference(ps: int, unit: TimeUnit = "auto") -> str:
    """A length of time less another, with its sign: ``+12.34 us``."""
    return f"{'+' * (ps > 0)}{duration(ps, unit)}"


MANIFOLD: Final = 1000
"""The growth, in times the base, above which a percentage says no more than that the base is next to nothing."""


def growth(fraction: float) -> str:
    """A difference as a percentage of what it is compared with, with its sign: ``+3.20 %``.

    From 1,000 % on it has no decimals, and what grew by more than a thousand times the base reads ``+>100,000 %``: so
    a column has one spelling, and stays narrow.
    """
    if fraction > MANIFOLD:
        return f"+>{MANIFOLD * 100:,} %"
    if fraction >= MANIFOLD / 100:
        return f"+{fraction * 100:,.0f} %"
    if 0 < abs(fraction) < 0.00005:
        return f"{'+' if fraction > 0 else '-'}<0.01 %"
    return f"{'+' * (fraction > 0)}{share(fraction)}"


def count(number: int) -> str:
    """A whole number with its thousands separated."""
    return f"{number:,}"


def plural(number: int, what: str, several: str = "") -> str:
    """How many there are of something: ``1 rank``, ``1,312 ranks``, and ``2 entries`` where `several` says so."""
    return f"{number:,} {what if number == 1 else several or f'{what}s'}"


def hosts_and_processes(names: Collection[str]) -> str:
    """How many machines, and processes on them where these are more, by names such as ``node7: python (1234)``.

    Of several names of processes alone nothing tells how many machines they are.
    """
    machines = {name.partition(": ")[0] for name in names}
    processes = plural(len(names), "process", "processes")
    if len(names) > 1 and any(": " not in name and name.endswith(")") for name in names):
        return processes
    told = plural(len(machines), "host")
    return told if len(names) == len(machines) else f"{told}, {processes}"


def runs(numbers: Iterable[int], most: int | None = 12) -> str:
    """Numbers as people write them, neighbours together: ``0-3, 7``; more runs than `most` are cut in the middle."""
    spans: list[list[int]] = []
    for each in sorted(numbers):
        if spans and each <= spans[-1][1] + 1:
            spans[-1][1] = each
        else:
            spans.append([each, each])
    words = [f"{low}" if low == high else f"{low}-{high}" for low, high in spans]
    return ", ".join(words if most is None or len(words) <= most else [*words[: most - 4], "…", *words[-3:]])


def which_ranks(numbers: Collection[int]) -> str:
    """Which ranks: ``rank 3``, ``ranks 1, 4-7``."""
    return f"rank{'s' * (len(numbers) != 1)} {runs(numbers)}"


def number(value: float) -> str:
    """A number of which nothing more is known: six significant digits; a whole one, such as an id, as it is."""
    if isinstance(value, int):
        return str(value)
    return f"{value:,.0f}" if 1e6 <= abs(value) < 1e15 else f"{value:.6g}"


def parse_duration(text: str) -> int:
    """A time that a person wrote (``10ms``, ``1.5 s``, ``250us``) in ps; but for 0, a bare number is refused.

    Raises TracehoundError with what was expected.
    """
    if text.strip() == "0":
        return 0
    match = _QUANTITY.fullmatch(text)
    unit = _ALIASES.get(match[2], match[2]) if match else ""
    if match is None or unit not in PS:
        raise TracehoundError(f"{text!r} is not a time", remedy="write a number and a unit: 12.5ms, 300us, 1s")
    with localcontext(prec=400):
        ps = (Decimal(match[1].replace(",", "").replace("_", "")) * PS[unit]).to_integral_value()
    if abs(ps) > LONGEST:
        raise TracehoundError(f"{text!r} is longer than a trace can be", remedy="at most 9,223,372 s")
    return int(ps)


def parse_numbers(text: str, what: str) -> tuple[int, ...]:
    """The numbers in a list such as ``0,2-5``, sorted, each once; `what` they number is for the message.

    Raises TracehoundError for what is no such list.
    """
    found: set[int] = set()
    for part in text.split(","):
        match = _RANGE.fullmatch(part)
        first = int(match[1]) if match else 0
        last = int(match[2] or match[1]) if match else -1
        if not first <= last < first + MOST_NUMBERS:
            raise TracehoundError(f"{printable(text)!r} names no {what}", remedy="write numbers and ranges: 0,2-5")
        found.update(range(first, last + 1))
    return tuple(sorted(found))


def _decimal(number: int, places: int) -> str:
    """`number` of the last of `places` decimals, thousands separated."""
    whole, rest = divmod(abs(number), 10**places)
    sign = "-" if number < 0 else ""
    return f"{sign}{whole:,}.{rest:0{places}d}" if places else f"{sign}{whole:,}"


def _round_half_even(numerator: int, denominator: int) -> int:
    quotient, rest = divmod(numerator, denominator)
    return quotient + (2 * rest > denominator or (2 * rest == denominator and quotient % 2 == 1))


def _significant(value: float, digits: int) -> str:
    """`value` with that many significant digits, zeros kept; from 10**digits on, as a whole number."""
    whole = len(str(int(abs(value))))
    text = f"{value:.{max(0, digits - whole)}f}"
    carried = len(text.partition(".")[0].lstrip("-")) > whole
    return f"{value:.{max(0, digits - whole - 1)}f}" if carried else text


def _scaled(value: float, step: int, names: tuple[str, ...]) -> str:
    if abs(value) < step:
        return f"{value:.0f} {names[0]}"
    for level, name in enumerate(names[1:], 1):
        text = _significant(value / step**level, 3)
        if abs(float(text)) < step or name == names[-1]:
            break
    return f"{text} {name}"


_REMARK: Final = re.compile(r" \([^()<>*&,]*\)$")
"""What stands behind a call in brackets of its own: no arguments, which follow a name without a space."""

_OTHERS = re.compile(r" and [0-9,]+ more$")
"""How many others a name stands for."""

_WRAPPERS = re.compile(r"\(anonymous namespace\)::|at::native::|c10::|std::|^void |^static ")
"""What stands before a name, or in it, and says nothing."""
_BRACKET = re.compile(r"[<>]")
_FUNCTOR = re.compile(r"\b\w*(?:Functor\w*|KernelImpl|_kernel_cuda|_functor|Ops?)\b")
"""Among its arguments, what an elementwise kernel does."""

_ANYTHING = re.compile(r"(?:device_)?[Kk]ernel\d?|kentry")
"""What cutlass, ck_tile and others call every kernel: its first template argument is what people call it."""
_TYPE = re.compile(r"[A-Za-z_][\w:]*")
"""A type among template arguments, or the name of a value."""
_BUILTIN = re.compile(r"(?:un)?signed|int|long|short|char|float|double|bool|half|bfloat16_t|__(?:half|nv_\w+|hip_\w+)")
"""Types of numbers: no kernel is called so."""
_ENABLING = re.compile(r"enable_\w+")
"""What is put around a kernel so that it is compiled for some devices alone."""

_MANGLED = re.compile(r"_ZN?K?(?:St)?(?=L?\d)")
"""How a mangled name begins, up to the first of its identifiers."""
_NESTED = re.compile(r"N(?:S[0-9A-Z]*_)?(?=\d)")
"""How a name in namespaces begins inside a mangled one."""
_IDENTIFIER = re.compile(r"L?(\d{1,4})")
"""What stands before each identifier of a mangled name: how long it is."""


def short_name(name: str, width: int = 0) -> str:
    """A kernel's name as people say it: without return type, arguments, template arguments and namespaces.

    ``void at::native::vectorized_elementwise_kernel<4, ...>(int)`` becomes ``vectorized_elementwise_kernel``. The
    innermost functor, which tells two elementwise kernels apart, is kept in brackets, and how many others the name
    stands for (``and 3 more``) behind it. Where every kernel of a library has one name, it is that of its first
    template argument. Mangled names are read likewise, without their functors. A remark behind a call stays, as the
    program in XLA's ``PjRtLoadedExecutable::Execute (jit_step)``. With `width` it is cut in the middle, so that both
    ends stay.
    """
    name = printable(name)
    more = found[0] if (found := _OTHERS.search(name)) else ""
    name = name.removesuffix(more)
    if _MANGLED.match(name):
        name = _unmangled(name)
    elif name.endswith(")") and "(" in name and ("::" in name or "<" in name or name.startswith("void ")):
        remark = found[0] if (found := _REMARK.search(name)) else ""
        name = _bare(name.removesuffix(remark)) + remark
    name += more
    return middle(name, width) if width else name


def _bare(name: str) -> str:
    _, _, template = name.partition("<")
    text = _untemplated(_WRAPPERS.sub("", name))
    parts = text.split("(", 1)[0].strip().rsplit(" ", 1)[-1].split("::")
    text = parts[-1] or name
    if _ANYTHING.fullmatch(text):
        return _telling(_TYPE.findall(name.partition(f"{text}<")[2])) or "::".join(parts[-2:])
    functors = _FUNCTOR.findall(template)
    return f"{text}[{functors[-1]}]" if functors and functors[-1] not in text else text


def _untemplated(name: str) -> str:
    """A name without what stands between brackets that match; others stay, as those of an ``operator<``."""
    kept, opened, last = list[str](), list[int](), 0
    for found in _BRACKET.finditer(name):
        at = found.start()
        kept.append(name[last:at])
        last = at + 1
        if name[at] == "<":
            opened.append(len(kept))
            kept.append("<")
        elif opened:
            del kept[opened.pop() :]
        else:
            kept.append(">")
    return "".join([*kept, name[last:]])


def _unmangled(name: str) -> str:
    """The same of a mangled name: ``_ZN5aiter11norm_kernelILi256EEvPf`` becomes ``norm_kernel``."""
    match = _MANGLED.match(name)
    parts, at = _identifiers(name, match.end() if match else 0)
    if not _ANYTHING.fullmatch(parts[-1]):
        return parts[-1] or name
    types = ("::".join(_identifiers(name, found.end())[0]) for found in _NESTED.finditer(name, at))
    return _telling(types) or "::".join(parts[-2:])


def _identifiers(name: str, at: int) -> tuple[list[str], int]:
    """The identifiers that follow one another from there on in a mangled name, at least one, and where they end."""
    found = []
    while match := _IDENTIFIER.match(name, at):
        at = match.end() + int(match[1])
        found.append(name[match.end() : at])
    return found or [""], at


def _telling(types: Iterable[str]) -> str | None:
    """Of template arguments the first, without its namespaces; none where that is a number's type."""
    first = next((bare for bare in (each.rsplit("::", 1)[-1] for each in types) if not _ENABLING.fullmatch(bare)), None)
    return None if first is None or _BUILTIN.fullmatch(first) else first


_POOL = re.compile(r"(?<![\s/_:#(-])[\s/_:#(-]*(?<![0-9])[0-9]+\)?$")


def several(words: Sequence[str], most: int) -> str:
    """``a, b, c and 5 more``: at most so many words, and how many there are beside them."""
    more = f" and {len(words) - most:,} more" if len(words) > most else ""
    return ", ".join(words[:most]) + more


def pool(thread: str) -> str:
    """The name that the threads of one pool share: without the number at its end that tells them apart."""
    return _POOL.sub("", thread)


def middle(text: str, width: int) -> str:
    """`text` cut to `width` characters in its middle, where it is longer."""
    if len(text) <= width:
        return text
    if width <= 3:
        return text[:width]
    tail = (width - 1) // 3
    return f"{text[: width - 1 - tail]}…{text[len(text) - tail :]}" if tail else f"{text[: width - 1]}…"
