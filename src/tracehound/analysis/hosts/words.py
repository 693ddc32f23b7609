"""What an event of a host's thread means, in words: "tracing the next step", "blocked on a value", "compiling".

Owns the vocabularies of PyTorch/XLA, JAX, tf.data, Grain and PyTorch as far as they say what a host is at. Knows no
files, and no tables but the columns of events.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from tracehound.analysis.events.busy import local_parent
from tracehound.analysis.hosts.compilations import recorded_by_torch
from tracehound.analysis.hosts.parts import FETCHING, SENDING
from tracehound.analysis.hosts.threads import nearest_around, told_by_name
from tracehound.formats.runtime_calls import ALLOCATION, BLOCKING, LAUNCH, WAIT
from tracehound.formats.torch_names import PARAMS
from tracehound.intervals import Ints
from tracehound.lookup import rows_with
from tracehound.nesting import inherited
from tracehound.trace import KINDS

COMPILING: Final = "compiling"
PROGRAM: Final = "loading a program onto the device"
LOADER: Final = "waiting for the loader"
LOADING: Final = "loading data"
VALUE: Final = "blocked on a value"
PROFILING: Final = "profiling"
COMMUNICATING: Final = "communicating"
OTHERS: Final = "waiting for other devices"
SENDING_INPUTS: Final = "sending inputs"
WAITING: Final = "waiting for the device"
COPYING: Final = "blocked on a copy"
ALLOCATING: Final = "allocating memory"
LAUNCHING: Final = "launching work"
RUNTIME: Final = "calling the runtime"
TRACING: Final = "tracing the next step"
OPERATORS: Final = "running operators"
PYTHON: Final = "running Python"
ASLEEP: Final = "waiting in Python"
QUIET: Final = "nothing recorded"
"""Of a stretch in which a thread has no event, or none but the mark of a step."""

WORDS: Final = (
    COMPILING, PROGRAM, LOADER, LOADING, VALUE, PROFILING, COMMUNICATING, OTHERS, SENDING_INPUTS, WAITING, COPYING,
    ALLOCATING, LAUNCHING, RUNTIME, TRACING, OPERATORS, PYTHON, ASLEEP,
)  # fmt: skip
"""All that an event may mean. Whatever happens inside the first seven is a part of them: a wait for the device inside
the reading of a value is being blocked on that value."""

_WHOLE: Final = 7
_NUMBER: Final = {words: number for number, words in enumerate(WORDS)}

_NAMES: Final = (
    (
        re.compile(
            r"LoadProgram|ActualLoad|cu(?:da)?(?:Module|Library)Load|hipModuleLoad"
            r"|^zeModule(?:Create|DynamicLink)|^urProgram(?:Create|Build|Compile|Link)"
        ),
        PROGRAM,
    ),
    (
        re.compile(
            r"cpu_loader\.next|get_batch_from_cpu_queue|DataLoader.*__next__|DataPipe#|IteratorGetNext|next_?batch"
            r"|wait\w*_batch|(?:Iterator|Dataset)\w*(?:::|\.)_*(?:GetNext|next)\b|\bgrain\b.*next",
            re.IGNORECASE,
        ),
        LOADER,
    ),
    (
        re.compile(
            r"^Iterator::|DataLoader|data_?load|load_?(?:batch|data)|input_?pipeline|\bgrain\b|worker_loop|_MapDataset",
            re.IGNORECASE,
        ),
        LOADING,
    ),
    (re.compile(r"stop_trace|start_trace|ProfilerSession|^Activity Buffer Request|profiler_(?:start|stop)"), PROFILING),
    (
        re.compile(
            r"^aten::(?:item|_local_scalar_dense|is_nonzero|nonzero|equal|masked_select|unique\w*)$|\.item\b"
            r"|\b_value$|__float__|__int__|__bool__|__array__|device_get\b|_copy_single_device_array_to_host"
        ),
        VALUE,
    ),
    (re.compile(rf"^(?:gloo|mpi|ucc|nccl):|^c10d::|^{PARAMS}"), COMMUNICATING),
    (re.compile(r"Rendezvous|rendezvous|pending_threads|DeviceBarrier|[Cc]lique"), OTHERS),
    (
        re.compile(ALLOCATION.pattern + r"|^Memory(?:Alloc|Dealloc)ation|AllocateDestinationBuffer"),
        ALLOCATING,
    ),
    (
        re.compile(
            WAIT.pattern + r"|TensorCollectionBarrier|block_until_ready|block_host_until|BlockHostUntil|::Await\b"
            r"|\bWait\b|\(wait |StreamWait|Acquire semaphore|ReadSyncFlag"
        ),
        WAITING,
    ),
    (
        re.compile(
            r"StepMarker|Sync(?:Live)?TensorsGraph|CollectSyncTensors|ExtractIRAndPrepareXlaData_|RunPostOrder"
            r"|IR building|SetTensorData|^update_placeholder$|_get_xla_sharding_specs|ReshardData"
        ),
        TRACING,
    ),
)
"""What names say by themselves; the first holds."""

_CALLS: Final = re.compile(
    LAUNCH.pattern
    + r"|Launch|Execut|Enqueue|^PjitFunction\(|Memcpy|Memset|RunExecutable|:XLA GPU module$|Linearize|BufferFromHost"
)
LAZY: Final = re.compile(r"^(?:StepMarker|Sync(?:Live)?TensorsGraph\w*|TransferToServer\w*|IR building)$")
"""Names by which PyTorch/XLA is known, of which tensors are lazy: Python does no more there than trace a graph."""

_ASLEEP: Final = re.compile(
    r"^\$time sleep$|^\$threading\.py:\d+ wait$|^\$(?:<unknown>|_thread\S*) acquire$|^\$\S+ (?:select|poll)$"
    r"|^<built-in function sleep>|^<built-in method (?:acquire of _thread|(?:poll|select) of)"
    r"|^threading\.py\(\d+\): wait$"
)
"""Frames of Python that sleep, or wait for another thread or process; as JAX spells them, and as PyTorch does."""

_KINDS: Final = {
    "compile": COMPILING,
    "sync": WAITING,
    "runtime": RUNTIME,
    "transfer": RUNTIME,
    "copy": RUNTIME,
    "collective": COMMUNICATING,
    "op": OPERATORS,
    "kernel": OPERATORS,
}


def meaning(name: str, kind: str) -> str | None:
    """What an event with this name and kind means by itself, one of `WORDS`; None where it says nothing.

    Frames of Python, annotations and steps mean something only by their names.
    """
    said = next((words for pattern, words in _NAMES if pattern.search(name)), None)
    if said is None and (kind == "compile" or recorded_by_torch(kind, name)):
        return COMPILING
    if kind == "runtime" and BLOCKING.search(name):
        return said or _moving(name, kind) or COPYING
    return said or _moving(name, kind) or (LAUNCHING if kind == "runtime" and _CALLS.search(name) else _KINDS.get(kind))


def _moving(name: str, kind: str) -> str | None:
    """Which way data goes, where an event is of a kind that may move it."""
    if kind not in ("transfer", "copy", "runtime", "annotation"):
        return None
    if FETCHING.search(name):
        return VALUE
    return SENDING_INPUTS if SENDING.search(name) else None


def doing(threads: pl.DataFrame, blocking: Collection[int] = ()) -> pl.Series:
    """What a thread is at while an event is the innermost on it, for every event; one of `WORDS`, or null."""
    names = threads["name"].unique().cast(pl.String).drop_nulls().to_list()
    return in_words(doing_codes(threads, local_parent(threads), names, blocking))


def in_words(codes: npt.NDArray[np.int8]) -> pl.Series:
    """The words at these positions in `WORDS`, null for -1."""
    return pl.Series("doing", codes).replace_strict(dict(enumerate(WORDS)), default=None, return_dtype=pl.String)


def doing_codes(
    threads: pl.DataFrame, parent: Ints, names: Sequence[str], blocking: Collection[int] = ()
) -> npt.NDArray[np.int8]:
    """The same as positions in `WORDS`, -1 for none.

    `threads` are events of host lanes with the columns `id`, `name` and `kind`, sorted by id, and all that is around
    them; `parent` has the row of what directly contains each, -1 for none (`local_parent`); `names` are those of all
    events of these lanes, which tell whether tensors are lazy. An event means what the nearest of the first words of
    `WORDS` around it means, or it itself; else what it or the nearest around it that means anything does. Calls that
    are `blocking` (ids, see `hosts.waits`) do not launch, as their names say, but wait for their copy. In PyTorch/XLA
    annotations and steps mean tracing; elsewhere frames, annotations and what is in them is Python, at work or asleep,
    while the mark of a step alone says nothing: it would cover sleeping and waiting alike.
    """
    lazy = any(LAZY.match(name) for name in names)
    code = told_by_name(threads, lambda name, kind: _code(name, kind, lazy))
    own = np.where(code < len(WORDS), code, np.int8(-1))
    rows = rows_with(threads["id"].to_numpy(), np.array(list(blocking), np.int64))
    rows = rows[rows >= 0]
    own[rows[code[rows] == _NUMBER[LAUNCHING]]] = _NUMBER[COPYING]
    kind = threads["kind"].to_physical().to_numpy()
    python = (kind == KINDS.index("python")) | (kind == KINDS.index("annotation"))
    marked = np.flatnonzero(kind == KINDS.index("step"))
    python[marked[nearest_around(parent, python, marked) >= 0]] = True
    found = np.where(python, np.int8(_NUMBER[PYTHON]), np.int8(-1))
    found[code == _SLEEP] = _NUMBER[ASLEEP]
    for says in (own, np.where(own < _WHOLE, own, np.int8(-1))):
        said = inherited(parent, says)
        found = np.where(said >= 0, said, found)
    return found


_SLEEP: Final = len(WORDS)
"""What `_code` says of a frame that means something only where nothing around it does: it sleeps."""


@lru_cache(1 << 14)
def _code(name: str, kind: str, lazy: bool) -> int | None:  # noqa: FBT001 - a fact of the file
    words = meaning(name, kind)
    if words is None and lazy and kind in ("annotation", "step"):
        words = TRACING
    if words is None and kind == "python" and _ASLEEP.search(name):
        return _SLEEP
    return None if words is None else _NUMBER[words]
