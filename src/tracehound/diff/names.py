"""What an op is called in every run: names without what a compiler or a build changes from one to the next.

Owns which parts of a name, of a kernel or of the text of an HLO instruction are accidents. Knows no trace.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Final

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


def signature(text: str) -> str:
    """A short mark of an HLO instruction: its opcode, shapes, layouts and attributes; "" where there is no text."""
    if not text:
        return ""
    bare = "".join(_UNTOLD.sub("", text).split())
    return blake2b(bare.encode(errors="replace"), digest_size=8).hexdigest()
