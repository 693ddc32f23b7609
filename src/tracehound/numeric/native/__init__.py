"""The compiled C library: loops that numpy cannot express, each with a slower replacement in Python.

Loads the library that was built with the package if its version fits. Without it (no compiler at installation,
`TRACEHOUND_NATIVE=0`) every caller computes the same result in Python.
"""

from __future__ import annotations

import ctypes
import os
from ctypes import c_bool, c_char_p, c_int32, c_int64, c_uint64, c_void_p
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

LIBRARY_FILE: Final = "libtracehound.so"
"""The library's file in this folder, built from the C sources."""

LIBRARY_VERSION: Final = 17
"""The version of the library's functions; a library of another version is not used."""

_OFF_VALUES: Final = ("0", "false", "no", "off")

_P, _N = c_void_p, c_int64
_SIGNATURES: Final = MappingProxyType(
    {
        "native_version": (c_int32, ()),
        "scan_new": (_P, (_P, c_int32, c_char_p, c_uint64)),
        "scan_odd_starts": (c_bool, (_P, c_int32, c_char_p, _N)),
        "scan_list": (_N, (_P, _P, _N)),
        "scan_beyond_ascii": (c_bool, (_P,)),
        "scan_others": (_N, (_P, _P)),
        "scan_columns": (_N, (_P, _P, _P, _P)),
        "scan_texts": (c_int32, (_P, c_int32, _P, _P)),
        "scan_key_bytes": (_N, (_P,)),
        "scan_forget_keys": (None, (_P,)),
        "scan_free": (None, (_P,)),
        "nest_ordered": (c_int32, (_P, _P, _P, _N)),
        "nest_intervals": (c_int32, (_P, _P, _N, _P, _N, _P, _N, _P, _P)),
        "xevents_count": (_N, (_P, _N, _P)),
        "xevents_columns": (None, (_P, _N, _N, _P, _P, _P, _P, _P, _P, _P, _N, _P, _P, _P)),
        "sweep_union": (_N, (_P, _P, _N)),
        "sweep_merge": (_N, (_P, _P, _N, _P, _P, _N, _P, _P)),
        "sweep_intersect": (_N, (_P, _P, _N, _P, _P, _N, _P, _P)),
        "sweep_self_time": (c_int32, (_P, _P, _P, _N, _P)),
        "sweep_exclusive_starts": (c_int32, (_P, _P, _P, _P, _N, _P)),
        "sweep_innermost": (_N, (_P, _P, _P, _N, _P, c_int32, _P, _P, _P, _P)),
        "sweep_count_reached": (None, (_P, _N, _P, _N, _P)),
        "sweep_latest_begun": (None, (_P, _P, _N, _P, _P, _N, _P)),
        "sweep_covered_lengths": (None, (_P, _P, _P, _N, _P, _P, _N, _P)),
        "sweep_add_overlaps": (None, (_P, _P, _P, _N, _P, _P, _P, _N, _P)),
        "trees_nearest": (c_int32, (_P, _P, _N, _P)),
        "trees_inherited": (c_int32, (_P, _P, _N, _P)),
        "trees_subtree_sums": (c_int32, (_P, _P, _N, _P)),
        "trees_repeated": (c_int32, (_P, _P, _P, _N, _N, _P)),
        "trees_paths": (_N, (_P, _P, _P, _N, _P, _P, _P)),
        "groups_occurring": (None, (_P, _N, _P)),
        "groups_row_of_each_pair": (None, (_P, _P, _N, _N, _P)),
        "groups_look_up_bytes": (None, (_P, _P, _N, _N, _P, _P)),
        "groups_look_up_numbers": (None, (_P, _P, _N, _N, _P, _P)),
        "groups_consecutive_rows": (None, (_P, _N, _N, _N, _P)),
        "groups_add": (None, (_P, _P, _N, _P)),
        "groups_largest": (None, (_P, _P, _P, _N, _P)),
        "groups_match_starts": (None, (_P, _P, _N, _N, _P, _P, _P, _P)),
    }
)
"""Result and argument types of each function of the library."""


@cache
def library() -> ctypes.CDLL | None:
    """The loaded library; None if there is none."""
    if os.environ.get("TRACEHOUND_NATIVE", "").lower() in _OFF_VALUES:
        return None
    try:
        return load_library(Path(__file__).with_name(LIBRARY_FILE))
    except (OSError, AttributeError):
        return None


def load_library(path: Path) -> ctypes.CDLL | None:
    """Load the library from a file; None if its version differs. Raises OSError or AttributeError for other files."""
    found = ctypes.CDLL(str(path))
    for name, (gives, takes) in _SIGNATURES.items():
        function: Any = getattr(found, name)
        function.restype, function.argtypes = gives, takes
    return found if found.native_version() == LIBRARY_VERSION else None
