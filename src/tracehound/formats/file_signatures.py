"""First bytes of files in each format: functions that recognize them, and a guess at files that are no trace.

Nothing that only reading needs is imported here: cached files open without it. The guess tells a user who opened the
wrong file which one to open instead.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

from tracehound.errors import TracehoundError
from tracehound.formats.inflate import GzipDamage
from tracehound.formats.protobuf_wire import BYTES, VARINT, WireError, read_field, read_varint
from tracehound.model.units import count_noun

REPLACEMENT_CHARACTER = b"\xef\xbf\xbd"
"""A converter of text writes this in place of bytes that are not UTF-8."""

UTF8_BOM: Final = b"\xef\xbb\xbf"
"""Editors write this before a text in UTF-8."""

_CATEGORIES: Final = (
    "cpu_op", "operator", "kernel", "cuda_runtime", "runtime", "python_function", "user_annotation", "ac2g", "trace",
    "cpu_instant_event", "gpu_memcpy", "gpu_memset", "memcpy", "cuda_driver", "gpu_user_annotation", "xpu_runtime",
    "mtia_runtime", "mtia_ccp_events", "hpu_op", "privateuse1_runtime", "fwdbwd", "cpu_to_cuda",
)  # fmt: skip
_KEYS: Final = (b'"deviceproperties"', b'"computeproperties"', b'"distributedinfo"', b'"traceevents"')
_LEGACY: Final = (b'"pid":"cpufunctions"', b'"pid":"cudafunctions"')
"""The processes of the autograd profiler, older than Kineto, which writes no categories."""

_XLA_MARKS: Final = (b'"name":"/device:', b'"name":"/host:', b'"highres-ticks":')


def is_kineto(start: bytes) -> bool:
    """Return whether this is the start of a Kineto file: its own keys before the events, or its categories in them."""
    dense = _strip_blanks(start).lower()
    if not _begins_document(dense) or _holds_whole_traces(dense) or b'"span_indx"' in dense:
        return False
    if b'"schemaversion"' in dense and any(key in dense for key in _KEYS):
        return True
    return b'"ph":"' in dense and (
        any(f'"cat":"{category}"'.encode() in dense for category in _CATEGORIES) or any(pid in dense for pid in _LEGACY)
    )


def is_xla_json(start: bytes) -> bool:
    """Return whether this is the start of XLA's trace.json: processes named after planes, and no event categories."""
    dense = _strip_blanks(start)
    if not _begins_document(dense) or _holds_whole_traces(dense.lower()):
        return False
    return b'"ph":"' in dense and b'"cat":' not in dense and any(mark in dense for mark in _XLA_MARKS)


_TIMELINE_ROW: Final = re.compile(rb"\s*\[\s*\[\s*-?\d+\s*,\s*[1-4]\s*,\s*-?\d+\s*,\s*\d\s*\]")
_ANY_ROW: Final = re.compile(rb"\]\s*,\s*\[\s*-?\d+\s*,\s*[1-4]\s*,\s*-?\d+\s*,\s*\d\s*(?=\])")
_ANY_KEY: Final = re.compile(rb'\{\s*"')
_LIST_OF_LISTS: Final = re.compile(rb"\s*.\s*\[|\s*\[\s*.", re.DOTALL)


def is_memory_timeline(start: bytes) -> bool:
    """Return whether this is the start of a raw memory timeline: rows of time, action, size and category."""
    text = start.removeprefix(UTF8_BOM)
    if _TIMELINE_ROW.match(text):
        return True
    beginning = text[:4096]  # the first row may be the damaged one
    return (
        _LIST_OF_LISTS.match(text) is not None
        and not _ANY_KEY.search(beginning)
        and len(_ANY_ROW.findall(beginning)) > 2
    )


def _strip_blanks(start: bytes) -> bytes:
    return start.removeprefix(UTF8_BOM).translate(None, delete=b" \t\n\r\v\f")


_TRACE_IN_LIST: Final = re.compile(rb'\[+\{(?:(?!"ph":).)*?"traceevents":\[', re.DOTALL)


def _holds_whole_traces(dense: bytes) -> bool:
    """Return whether `dense`, without blanks and in lower case, is a list of whole documents."""
    return _TRACE_IN_LIST.match(dense) is not None


_DOCUMENT_START: Final = re.compile(rb'[{\[]|.\{|.?"[^"]+":', re.DOTALL)


def _begins_document(dense: bytes) -> bool:
    """Return whether `dense`, without blanks, may start a JSON document; its first byte may be damaged or missing.

    The output of a program that starts with a quoted sentence and later writes traces is not accepted.
    """
    return _DOCUMENT_START.match(dense) is not None


def is_xplane(head: bytes) -> bool:
    """Return whether the bytes start an XSpace: a plane that starts with id and name and has only fields of a plane.

    A file that went through a text converter is accepted, so that reading can report the conversion.
    """
    end = len(head)
    if (
        head.startswith(b"\n")
        and REPLACEMENT_CHARACTER in head
        and any(name in head[:64] for name in (b"/device:", b"/host:"))
    ):
        return True
    try:
        key, at = read_varint(head, 0, end)
        if key != 1 << 3 | BYTES:
            return False
        size, at = read_varint(head, at, end)
        return size > 0 and _is_plane(head, at, min(at + size, end), cut=at + size > end)
    except WireError:
        return False


_PLANE_WIRES = {1: VARINT, 2: BYTES, 3: BYTES, 4: BYTES, 5: BYTES, 6: BYTES}


def _is_plane(head: bytes, at: int, end: int, *, cut: bool) -> bool:
    """Return whether `[at, end)` parses as an XPlane, as far as it goes."""
    has_name = False
    while at < end:
        try:
            field, at = read_field(head, at, end)
        except WireError as error:
            return cut and error.overrun and has_name
        if _PLANE_WIRES.get(field.number) != field.wire:
            return False
        if field.number == 2:
            name = head[field.at : field.at + field.value]
            has_name = len(name) > 0 and name.isascii() and name.decode("ascii").isprintable()
        if not has_name and field.number > 2:
            return False
    return has_name


_PACKET_WIRES: Final = {3: VARINT, 6: BYTES, 8: VARINT, 10: VARINT, 11: BYTES, 33: BYTES, 36: BYTES, 60: BYTES}
"""Fields of Perfetto's TracePacket: user, clocks, timestamp, sequence, event, configuration, marker, track."""


def is_perfetto(start: bytes) -> bool:
    """Return whether the bytes start a Perfetto trace: a packet that parses, and another behind it. No XSpace does."""
    end = len(start)
    try:
        packet, after = read_field(start, 0, end)
        numbers = set()
        at = packet.at
        while packet.number == 1 and packet.wire == BYTES and at < after:
            field, at = read_field(start, at, after)
            if _PACKET_WIRES.get(field.number, field.wire) != field.wire:
                return False
            numbers.add(field.number)
    except WireError:
        return False
    return bool(numbers & _PACKET_WIRES.keys()) and start[after : after + 1] in (b"", b"\n")


class CompanionFileError(TracehoundError):
    """A file that is no trace but belongs beside traces: nothing of them is missing without it."""


class FileGuess(NamedTuple):
    """A guess at a file's kind, what the user can do about it, and whether such files belong beside traces."""

    looks: str
    remedy: str = ""
    companion: bool = False


_OPEN_A_PROFILE: Final = "open the JSON that torch.profiler writes, or an XLA xplane.pb"
_KNOWN_MAGIC: Final = (
    (b"\x1f\x8b", FileGuess("a gzip file inside another", "unpack it once")),
    (b"PK\x03\x04", FileGuess("a zip archive", "unpack it first")),
    (b"\x28\xb5\x2f\xfd", FileGuess("a zstd file", "unpack it first")),
    (b"\xfd7zXZ", FileGuess("an xz file", "unpack it first")),
    (b"BZh", FileGuess("a bzip2 file", "unpack it first")),
    (
        b"\x83\xaf\x70\xd1\x0d\x88\x4a\x3f",
        FileGuess(
            "a profile of XLA in Riegeli records (xplane.riegeli), as XProf's continuous mode writes",
            "record with jax.profiler.start_trace and stop_trace, which write an xplane.pb",
            companion=True,
        ),
    ),
    (b"PAR1", FileGuess("a Parquet file", _OPEN_A_PROFILE)),
    (b"ARROW1", FileGuess("an Arrow file", _OPEN_A_PROFILE)),
    (b"\x7fELF", FileGuess("a program", _OPEN_A_PROFILE)),
    (b"HloModule", FileGuess("HLO text", "open the profile it belongs to")),
)
_UTF16: Final = re.compile(rb"\xff\xfe(?!\0\0)|\xfe\xff|[{\[]\0[\t\n\r -~]\0|\0[{\[]\0[\t\n\r -~]")
"""Starts of UTF-16: its byte order mark, or JSON without one."""

_PPROF: Final = re.compile(rb"(?:\n\x04\x08[\x00-\x7f]\x10[\x00-\x7f])+[\n\x12]")
"""Start of pprof's protocol buffer: sample types, each two indexes into its string table, then a sample."""

BASELINE_START: Final = re.compile(rb'\s*\{\s*"schema"\s*:\s*"(tracehound\.profile/\d+)"')
"""Start of a saved baseline, however its JSON is spaced: its schema."""

_PICKLE: Final = re.compile(rb"\x80[\x02-\x0f]|\}q.\(|\(dp\d|\]q.|\(lp\d", re.DOTALL)
"""Start of a pickle: its protocol, or in those before 2 its dict or list."""

_SNAPSHOT_KEYS: Final = re.compile(
    rb"device_traces|segment_type|allocator_settings|\bsegments\b.*?\btotal_size", re.DOTALL
)
"""Keys of PyTorch's memory snapshots."""

_SQLITE: Final = b"SQLite format 3"
_NSYS_TABLES: Final = re.compile(rb"CUPTI_ACTIVITY_KIND|TARGET_INFO_|META_DATA_CAPTURE|NVTX_EVENTS")
_ROCPROF_TABLES: Final = re.compile(rb"rocpd_|hip_api|CREATE TABLE \W?(?:KernelExecution|KERN_EXEC)")
_RECORD_WITH_TORCH: Final = "record the program with torch.profiler instead, and open its JSON"
_MEMORY_SNAPSHOT: Final = FileGuess(
    "a PyTorch memory snapshot (a pickle, which is never loaded here)",
    "open it at https://pytorch.org/memory_viz; for memory here, record with torch.profiler and profile_memory=True",
    companion=True,
)
_OTHER_PICKLE: Final = FileGuess("a Python pickle", _OPEN_A_PROFILE, companion=True)
_PERFETTO_TRACE: Final = FileGuess(
    "a Perfetto trace in its own form (.pftrace), a protocol buffer",
    "export JSON: export_chrome_trace of torch.profiler with a name that ends in .json",
    companion=True,
)
_NSYS_REPORT: Final = FileGuess("a report of Nsight Systems (nsys)", _RECORD_WITH_TORCH, companion=True)

_JSON_WRITERS: Final = (
    (re.compile(rb'"span_indx"'), "Paddle's profiler"),
    (re.compile(rb'"BeginNs"\s*:'), "rocprof (its first version)"),
    (re.compile(rb'"rocprofiler-sdk-tool"'), "rocprofv3"),
    (re.compile(rb'"/(?:job:|device:|host:)[^"]{0,200}(?:stream|Compute|replica)'), "TensorFlow 1's timeline"),
    (re.compile(rb'"viztracer_metadata"|"cat"\s*:\s*"FEE"'), "VizTracer"),
    (re.compile(rb'"pid"\s*:\s*"(?:Device|Host) \d'), "nsys2json"),
    (re.compile(rb'"cat"\s*:\s*"(?:disabled-by-default-|devtools|__metadata|v8)'), "Chrome or another browser"),
)
"""Marks of other programs that write Chrome's form."""

_SEVERAL_TRACES: Final = FileGuess(
    "a list of whole traces, as jq -s writes",
    "split it (jq -c '.[]' FILE | split -l 1 -d --additional-suffix=.json - rank) and open the files together",
)

_BLANK_FILE: Final = FileGuess("a file of blanks", _OPEN_A_PROFILE)
_PLAIN_JSON: Final = FileGuess("JSON without trace events", _OPEN_A_PROFILE)
_NESTED_LISTS: Final = re.compile(rb"\s*\[\s*\[\s*-?\d")
_BEGIN_END_PHASE: Final = re.compile(rb'"ph"\s*:\s*"[BE]"')
_ANY_PHASE: Final = re.compile(rb'"ph"\s*:\s*"')
_UNPRINTABLE: Final = re.compile(rb"[\x00-\x08\x0e-\x1a]")
_TAR_MARK: Final = slice(257, 262)


def guess_file_kind(start: bytes) -> FileGuess:
    """Guess the kind of a file that starts with these inflated bytes."""
    known = next((kind for magic, kind in _KNOWN_MAGIC if start.startswith(magic)), None)
    guess = known or _guess_records(start) or _guess_protobuf(start)
    if guess is not None:
        return guess
    text = start.lstrip(UTF8_BOM + b" \t\r\n")
    return _guess_json(text) if text[:1] in (b"{", b"[") else _guess_text(text)


def _guess_records(start: bytes) -> FileGuess | None:
    """Guess a database, a pickle, an archive, or a text in another encoding."""
    if start.startswith(_SQLITE):
        return _guess_database(start)
    if _PICKLE.match(start):
        return _MEMORY_SNAPSHOT if _SNAPSHOT_KEYS.search(start) else _OTHER_PICKLE
    if _UTF16.match(start):
        return FileGuess("UTF-16 text", "convert it to UTF-8, as iconv -f UTF-16 -t UTF-8 does")
    return FileGuess("a tar archive", "unpack it first") if start[_TAR_MARK] == b"ustar" else None


def _guess_protobuf(start: bytes) -> FileGuess | None:
    if _PPROF.match(start):
        looks = "a profile for pprof, as jax.profiler.save_device_memory_profile writes"
        return FileGuess(looks, "go tool pprof reads it; " + _OPEN_A_PROFILE, companion=True)
    return _PERFETTO_TRACE if is_perfetto(start) else None


def guess_named_file_kind(start: bytes, name: str) -> FileGuess:
    """Guess the kind of a file; where its bytes say nothing, by its name."""
    found = guess_file_kind(start)
    if found.looks == _UNKNOWN_KIND and _NSYS_NAME.search(name):
        return _NSYS_REPORT
    return _NPU_SETTINGS if found == _PLAIN_JSON and _NPU_SETTINGS_NAME.fullmatch(name) else found


_NPU_SETTINGS: Final = FileGuess(
    "what torch_npu writes beside its trace", "open ASCEND_PROFILER_OUTPUT/trace_view.json", companion=True
)
_NPU_SETTINGS_NAME: Final = re.compile(r"profiler_(?:info(?:_\d+)?|metadata)\.json")
_UNKNOWN_KIND: Final = "a file of an unknown kind"
_NSYS_NAME: Final = re.compile(r"\.(?:nsys-rep|qdrep|qdstrm)(?:\.gz)?$", re.IGNORECASE)


def _guess_database(start: bytes) -> FileGuess:
    """Guess the writer of an SQLite database by its first tables."""
    if _NSYS_TABLES.search(start):
        return FileGuess("an SQLite database of Nsight Systems (nsys)", _RECORD_WITH_TORCH, companion=True)
    if _ROCPROF_TABLES.search(start):
        return FileGuess("an SQLite database of rocprof", _RECORD_WITH_TORCH, companion=True)
    looks = "an SQLite database, as Nsight Systems and rocprof export"
    return FileGuess(looks, _RECORD_WITH_TORCH, companion=True)


def unreadable_gzip_error(path: Path, start: bytes, damage: GzipDamage) -> TracehoundError:
    """Return the error for a damaged gzip file whose readable start is not the start of a trace."""
    found = guess_file_kind(start)
    guess = "is too little to tell what it is" if found in (_BLANK_FILE, _PLAIN_JSON) else f"looks like {found.looks}"
    size = count_noun(len(start), "byte")
    left = f"what could be read before that ({size}) {guess}" if start else "nothing before that could be read"
    return TracehoundError(
        f"gzip {damage.what}, and {left}", path, where=f"byte {damage.at:,}", remedy="copy it again, or record it anew"
    )


def _guess_text(text: bytes) -> FileGuess:
    if text[:9].lower() == b"<!doctype" or text[:5].lower() == b"<html":
        return FileGuess("a web page", "if it is a report, open the trace it was made from")
    if not text:
        return _BLANK_FILE
    if not _UNPRINTABLE.search(text):
        return FileGuess("a text file", _OPEN_A_PROFILE)
    return FileGuess(_UNKNOWN_KIND, _OPEN_A_PROFILE)


def _guess_json(text: bytes) -> FileGuess:
    if BASELINE_START.match(text):
        return FileGuess(
            "a baseline: what was measured of a run, without its events",
            "tracehound diff compares another run with it",
            companion=True,
        )
    if b'"schema"' in text and (b'"nodes"' in text or b"execution_trace" in text):
        return FileGuess(
            "a PyTorch execution trace, a graph of operators",
            "open the profiler's trace of the same run",
            companion=True,
        )
    if _NESTED_LISTS.match(text):
        remedy = "export it as ....raw.json.gz, or open the profiler's trace of the same run"
        return FileGuess("a memory timeline (export_memory_timeline) in its form for plots", remedy, companion=True)
    if _holds_whole_traces(_strip_blanks(text).lower()):
        return _SEVERAL_TRACES
    return _guess_chrome_writer(text) if _ANY_PHASE.search(text) else _PLAIN_JSON


def _guess_chrome_writer(text: bytes) -> FileGuess:
    """Guess which other program wrote a trace in Chrome's form."""
    writer = next((writer for mark, writer in _JSON_WRITERS if mark.search(text)), "")
    if writer:
        return FileGuess(f"a trace of {writer}, which neither PyTorch nor XLA wrote", _OPEN_A_PROFILE)
    if _BEGIN_END_PHASE.search(text):
        return FileGuess("a trace of begin and end events, which neither PyTorch nor XLA writes", _OPEN_A_PROFILE)
    return FileGuess("a Chrome trace that neither PyTorch nor XLA wrote", _OPEN_A_PROFILE)
