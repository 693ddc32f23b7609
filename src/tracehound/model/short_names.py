"""Short forms of the names that traces contain: kernels, threads of a pool, and any text cut to a width."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from tracehound.errors import printable

_TRAILING_REMARK: Final = re.compile(r" \([^()<>*&,]*\)$")
"""A remark in parentheses after a call; arguments differ, they follow a name without a space."""

_AND_MORE = re.compile(r" and [0-9,]+ more$")
"""The number of further names that a name stands for."""

_WRAPPERS = re.compile(r"\(anonymous namespace\)::|at::native::|c10::|std::|^void |^static ")
"""Prefixes and qualifiers of names that say nothing."""
_BRACKET = re.compile(r"[<>]")
_FUNCTOR = re.compile(r"\b\w*(?:Functor\w*|KernelImpl|_kernel_cuda|_functor|Ops?)\b")
"""The template argument that says what an elementwise kernel does."""

_GENERIC_KERNEL = re.compile(r"(?:device_)?[Kk]ernel\d?|kentry")
"""The name of all kernels of cutlass, ck_tile and others: their first template argument is the real name."""
_TYPE_NAME = re.compile(r"[A-Za-z_][\w:]*")
"""A type among template arguments, or the name of a value."""
_NUMBER_TYPE = re.compile(
    r"(?:un)?signed|int|long|short|char|float|double|bool|half|bfloat16_t|__(?:half|nv_\w+|hip_\w+)"
)
"""Types of numbers, which are never names of kernels."""
_ENABLE_WRAPPER = re.compile(r"enable_\w+")
"""A wrapper around kernels that are compiled for some devices only."""

_MANGLED_PREFIX = re.compile(r"_ZN?K?(?:St)?(?=L?\d)")
"""The beginning of a mangled name, up to its first identifier."""
_NESTED_PREFIX = re.compile(r"N(?:S[0-9A-Z]*_)?(?=\d)")
"""The beginning of a name in namespaces inside a mangled one."""
_IDENTIFIER_LENGTH = re.compile(r"L?(\d{1,4})")
"""The length before each identifier of a mangled name."""


def shorten_kernel_name(name: str, width: int = 0) -> str:
    """A kernel's name in its usual short form: without return type, arguments, template arguments and namespaces.

    ``void at::native::vectorized_elementwise_kernel<4, ...>(int)`` becomes ``vectorized_elementwise_kernel``. The
    innermost functor, which tells elementwise kernels apart, is kept in brackets, and the number of further names
    (``and 3 more``) after it. If all kernels of a library have the same name, the first template argument is taken.
    Mangled names are shortened in the same way, without their functors. A remark after a call stays, such as the
    program in XLA's ``PjRtLoadedExecutable::Execute (jit_step)``. With `width` the name is cut in the middle, so that
    both ends stay.
    """
    name = printable(name)
    more = found[0] if (found := _AND_MORE.search(name)) else ""
    name = name.removesuffix(more)
    if _MANGLED_PREFIX.match(name):
        name = _demangle_name(name)
    elif name.endswith(")") and "(" in name and ("::" in name or "<" in name or name.startswith("void ")):
        remark = found[0] if (found := _TRAILING_REMARK.search(name)) else ""
        name = _strip_signature(name.removesuffix(remark)) + remark
    name += more
    return cut_middle(name, width) if width else name


def _strip_signature(name: str) -> str:
    _, _, template = name.partition("<")
    text = _strip_templates(_WRAPPERS.sub("", name))
    parts = text.split("(", 1)[0].strip().rsplit(" ", 1)[-1].split("::")
    text = parts[-1] or name
    if _GENERIC_KERNEL.fullmatch(text):
        return _first_type_name(_TYPE_NAME.findall(name.partition(f"{text}<")[2])) or "::".join(parts[-2:])
    functors = _FUNCTOR.findall(template)
    return f"{text}[{functors[-1]}]" if functors and functors[-1] not in text else text


def _strip_templates(name: str) -> str:
    """A name without the text between matching angle brackets; others stay, as in ``operator<``."""
    chunks, opened, last = list[str](), list[int](), 0
    for found in _BRACKET.finditer(name):
        at = found.start()
        chunks.append(name[last:at])
        last = at + 1
        if name[at] == "<":
            opened.append(len(chunks))
            chunks.append("<")
        elif opened:
            del chunks[opened.pop() :]
        else:
            chunks.append(">")
    return "".join([*chunks, name[last:]])


def _demangle_name(name: str) -> str:
    """The short form of a mangled name: ``_ZN5aiter11norm_kernelILi256EEvPf`` becomes ``norm_kernel``."""
    match = _MANGLED_PREFIX.match(name)
    parts, at = _mangled_identifiers(name, match.end() if match else 0)
    if not _GENERIC_KERNEL.fullmatch(parts[-1]):
        return parts[-1] or name
    types = ("::".join(_mangled_identifiers(name, found.end())[0]) for found in _NESTED_PREFIX.finditer(name, at))
    return _first_type_name(types) or "::".join(parts[-2:])


def _mangled_identifiers(name: str, at: int) -> tuple[list[str], int]:
    """The consecutive identifiers of a mangled name from `at` on, at least one, and the position of their end."""
    found = []
    while match := _IDENTIFIER_LENGTH.match(name, at):
        at = match.end() + int(match[1])
        found.append(name[match.end() : at])
    return found or [""], at


def _first_type_name(types: Iterable[str]) -> str | None:
    """The first of the template arguments, without its namespaces; None if that is a type of numbers."""
    first = next(
        (bare for bare in (each.rsplit("::", 1)[-1] for each in types) if not _ENABLE_WRAPPER.fullmatch(bare)), None
    )
    return None if first is None or _NUMBER_TYPE.fullmatch(first) else first


_POOL_NUMBER = re.compile(r"(?<![\s/_:#(-])[\s/_:#(-]*(?<![0-9])[0-9]+\)?$")


def thread_pool_name(thread: str) -> str:
    """The common name of the threads of a pool: without the number at its end."""
    return _POOL_NUMBER.sub("", thread)


def cut_middle(text: str, width: int) -> str:
    """`text` cut to `width` characters in its middle if it is longer."""
    if len(text) <= width:
        return text
    if width <= 3:
        return text[:width]
    tail = (width - 1) // 3
    return f"{text[: width - 1 - tail]}…{text[len(text) - tail :]}" if tail else f"{text[: width - 1]}…"
