"""What an op is called in every run: names without what a compiler or a build changes from one to the next.

Owns which parts of a name, of a kernel or of the text of an HLO instruction are accidents. Knows no trace.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Final

from tracehound.formats.hlo.members import groups, spelt, written
from tracehound.units import short_name

_NUMBERS: Final = re.compile(r"(?:[._]\d+|\.(?:clone|remat|cloned|sunk)\d*|\.kd)+$")
"""What XLA hangs on a name to make it unique: ``fusion.123.clone.remat2``, ``gemm_fusion_dot_1.kd``."""

_KERNEL_NUMBERS: Final = re.compile(r"(?:_\d+|_[0-9a-f]{8,}|\.kd)+$")
"""Running numbers of generated kernels (Triton's), hashes of their code, the mark of a kernel descriptor."""

_MODULE: Final = re.compile(r"(?:\(\d+\)|[._]\d+)+$")
"""The fingerprint or number behind a module's name: ``jit_step(1234567890)``."""

_UNTOLD: Final = re.compile(
    r"%[\w.\-]+|,\s*(?:metadata|backend_config|frontend_attributes|sharding|origin)=\{(?:[^{}]|\{[^{}]*\})*\}"
    r"|,\s*(?:calls|to_apply|channel_id|control-predecessors|custom_call_schedule)=[^,]*"
)
"""What differs between two compilations of one instruction: names of others, ids, where it came from."""

_MEMORY_SPACE: Final = re.compile(r"S\(\d+\)")
"""In which memory the compiler put a buffer, behind its layout: ``{1,0:T(8,128)S(1)}``."""

_SETTING: Final = re.compile(r"[._-]?(?<![A-Za-z])\d+(?:x\d+)*(?![A-Za-z\d])")
"""A number that stands by itself: sizes of blocks and pages in the name of a kernel."""

_NAME: Final = re.compile(r"[A-Za-z_][\w.:\-]*")

_OF_LOOPS: Final = frozenset(
    ("while", "body", "cond", "scan", "closed_call", "checkpoint", "remat", "rematted_computation")
)
"""Parts of a scope around what runs repeatedly: names stand before and behind them."""

_OF_CALLS: Final = frozenset(("shard_map", "pallas_call", "custom_jvp_call", "custom_vjp_call", "core_call", "pjit"))
"""Parts of a scope that begin how something is computed, no longer what."""


def op_name(name: str) -> str:
    """An HLO op without its number: ``fusion.123.clone`` is a ``fusion``."""
    return _NUMBERS.sub("", name) or name


def module_name(name: str) -> str:
    """A module without its fingerprint."""
    return _MODULE.sub("", name) or name


def kernel_family(name: str) -> str:
    """A kernel as people say it, without the number that tells it from its like."""
    short = short_name(name)
    return _KERNEL_NUMBERS.sub("", short) or short


def call_family(name: str) -> str:
    """A custom call without the settings in its name: ``RPA-bq_32-p_64-.1`` is an ``RPA-bq-p``."""
    bare = op_name(name)
    return _SETTING.sub("", bare).strip("._-") or bare


def place(scope: str) -> str:
    """The named part of an op's scope, without how the op is computed there; "" where nothing is named.

    ``jit(f)/Dense/mn,np->mp/dot_general`` and ``jit(f)/Dense/shard_map/jit(kernel)/pallas_call`` both lie in
    ``jit(f)/Dense``. What transforms a function (``jit(f)``) and loops are no names.
    """
    parts = scope.split("/")
    end = 0
    for number, part in enumerate(parts[:-1]):
        named = part not in _OF_CALLS and _NAME.fullmatch(part)
        if end and not named:
            break
        if named and part not in _OF_LOOPS:
            end = number + 1
    return "/".join(parts[:end])


def signature(text: str) -> str:
    """A short mark of an HLO instruction: its opcode, shapes, layouts and attributes; "" where there is no text.

    Groups of devices are the same however they are spelled.
    """
    if not text:
        return ""
    bare = _MEMORY_SPACE.sub("", "".join(_UNTOLD.sub("", text).split()))
    if (short := spelt(bare)) and (found := groups(short)):
        bare = bare.replace(short, f"replica_groups={written(found)}")
    return blake2b(bare.encode(errors="replace"), digest_size=8).hexdigest()
