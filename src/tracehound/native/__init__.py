"""What is compiled: loops that no array library has, in C, without which the same is done in Python.

Owns finding the library that was built along with the package, whether it is of this version, and what its functions
take. Where there is none (no compiler when the package was installed, `TRACEHOUND_NATIVE=0`), every caller has a way of
its own, to the same end.
"""

from __future__ import annotations

import ctypes
import os
from ctypes import c_bool, c_char_p, c_int32, c_int64, c_uint64, c_void_p
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

NAME: Final = "libtracehound.so"
"""The file beside this one that building the package makes of the sources in C."""

VERSION: Final = 16
"""Of the functions in the library: one that is older, or younger, is left alone."""

_OFF: Final = ("0", "false", "no", "off")

_P, _N = c_void_p, c_int64
_FUNCTIONS: Final = MappingProxyType(
    {
        "native_version": (c_int32, ()),
        "scan_new": (_P, (_P, c_int32, c_char_p, c_uint64)),
        "scan_odd_starts": (c_bool, (_P, c_int32, c_char_p, _N)),
        "scan_list": (_N, (_P, _P, _N)),
        "scan_beyond_ascii": (c_bool, (_P,)),
        "scan_others": (_N, (_P, _P)),
        "scan_columns": (_N, (_P, _P, _P, _P)),
        "scan_texts": (c_int32, (_P, c_int32, _P, _P)),
        "scan_held": (_N, (_P,)),
        "scan_forget": (None, (_P,)),
        "scan_free": (None, (_P,)),
        "nest_ordered": (c_int32, (_P, _P, _P, _N)),
        "nest_intervals": (c_int32, (_P, _P, _N, _P, _N, _P, _N, _P, _P)),
        "xevents_count": (_N, (_P, _N, _P)),
        "xevents_columns": (None, (_P, _N, _N, _P, _P, _P, _P, _P, _P, _P, _N, _P, _P, _P)),
        "sweep_union": (_N, (_P, _P, _N)),
        "sweep_merge": (_N, (_P, _P, _N, _P, _P, _N, _P, _P)),
        "sweep_intersect": (_N, (_P, _P, _N, _P, _P, _N, _P, _P)),
        "sweep_self_time": (c_int32, (_P, _P, _P, _N, _P)),
        "sweep_unshared": (c_int32, (_P, _P, _P, _P, _N, _P)),
        "sweep_innermost": (_N, (_P, _P, _P, _N, _P, c_int32, _P, _P, _P, _P)),
        "sweep_passed": (None, (_P, _N, _P, _N, _P)),
        "sweep_latest": (None, (_P, _P, _N, _P, _P, _N, _P)),
        "sweep_covered": (None, (_P, _P, _P, _N, _P, _P, _N, _P)),
        "sweep_shared_time": (None, (_P, _P, _P, _N, _P, _P, _P, _N, _P)),
        "trees_nearest": (c_int32, (_P, _P, _N, _P)),
        "trees_inherited": (c_int32, (_P, _P, _N, _P)),
        "trees_with_below": (c_int32, (_P, _P, _N, _P)),
        "trees_again": (c_int32, (_P, _P, _P, _N, _N, _P)),
        "trees_paths": (_N, (_P, _P, _P, _N, _P, _P, _P)),
        "groups_occurring": (None, (_P, _N, _P)),
        "groups_one_of_each": (None, (_P, _P, _N, _N, _P)),
        "groups_told": (None, (_P, _P, _N, _N, _P, _P)),
        "groups_numbered": (None, (_P, _P, _N, _N, _P, _P)),
        "groups_rows": (None, (_P, _N, _N, _N, _P)),
        "groups_add": (None, (_P, _P, _N, _P)),
        "groups_most": (None, (_P, _P, _P, _N, _P)),
        "groups_earliest": (None, (_P, _P, _N, _N, _P, _P, _P, _P)),
    }
)
"""What each function of the library gives and takes."""


@cache
def library() -> ctypes.CDLL | None:
    """The library; None where there is none to be used."""
    if os.environ.get("TRACEHOUND_NATIVE", "").lower() in _OFF:
        return None
    try:
        return loaded(Path(__file__).with_name(NAME))
    except (OSError, AttributeError):
        return None


def loaded(path: Path) -> ctypes.CDLL | None:
    """The library in a file; None where it is of another version. Raises OSError and AttributeError for no library."""
    found = ctypes.CDLL(str(path))
    for name, (gives, takes) in _FUNCTIONS.items():
        function: Any = getattr(found, name)
        function.restype, function.argtypes = gives, takes
    return found if found.native_version() == VERSION else None
