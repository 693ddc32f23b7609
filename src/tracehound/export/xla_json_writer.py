"""XLA traces as Chrome trace events from the model, in the form that XLA itself writes.

Owns its processes and threads (a process for each device and host, a thread for each lane), and the args of events,
with kernel details and links between host threads. Times are those of the trace, in microseconds to the picosecond. A
batch of rows is in memory at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import polars as pl

from tracehound.analysis.rank_trace import overlapping_events, rank_traces
from tracehound.analysis.window_bounds import Interval, lane_windows
from tracehound.export import ExportSummary, ReportProgress
from tracehound.export.chrome_document import (
    EVENT_SEPARATOR,
    ChromeDocument,
    CounterTrackProcess,
    counter_events,
    format_us,
)
from tracehound.export.window_filter import export_windows
from tracehound.formats.export_metadata import is_exported_counter
from tracehound.formats.json.json_document import encode_json
from tracehound.formats.xla.kernel_details import format_launch_details
from tracehound.model.facet_schemas import LINK_COLUMNS
from tracehound.model.ids import file_index_of
from tracehound.model.trace import CPU_LABEL, Trace, Window, collect_frame


def add_kernel_details(trace: Trace, lane: int, rows: pl.DataFrame) -> pl.DataFrame:
    """Events of a lane, with `record`, and the `details` of kernels; null for all others.

    Only the details of these events are in memory: the facet is read anew for every batch.
    """
    details = _facet_rows(trace, lane, rows, "launched") if lane in _stream_lanes(trace) else None
    if details is None:
        return rows.with_columns(pl.lit(None, pl.String).alias("details"))
    return rows.join(
        format_launch_details(details).rename({"text": "details"}),
        on="record",
        how="left",
        maintain_order="left",
    )


def add_link_ids(trace: Trace, lane: int, rows: pl.DataFrame) -> pl.DataFrame:
    """Events of a lane, with `record`, and the ids that they produce and consume; null where they do not.

    The ids are hashed with the number of the file: two files may have equal ones. The work of a CPU's devices is done
    on threads of the host, which have the ids.
    """
    links = None if lane in _cpu_device_lanes(trace) else _facet_rows(trace, lane, rows, "handed")
    if links is None:
        return rows.with_columns(pl.lit(None, pl.Int64).alias(name) for name in LINK_COLUMNS)
    known = pl.when(pl.col(LINK_COLUMNS).is_not_null())
    ids = links.with_columns(known.then(pl.col(LINK_COLUMNS).hash(file_index_of(lane)).reinterpret(signed=True)))
    return rows.join(ids, on="record", how="left", maintain_order="left")


def _facet_rows(trace: Trace, lane: int, rows: pl.DataFrame, name: str) -> pl.DataFrame | None:
    """The rows of a facet for these events of a lane; None where there are none."""
    facet = trace.facets[file_index_of(lane)].get(name)
    if facet is None or rows.is_empty():
        return None
    low, high = rows.select(pl.col("record").min(), pl.col("record").max().alias("last")).row(0)
    return collect_frame(facet.filter(pl.col("record").is_between(low, high)))


def _stream_lanes(trace: Trace) -> set[int]:
    """The lanes of streams."""
    return set(trace.lanes.filter(pl.col("role") == "stream")["lane"].to_list())


def _cpu_device_lanes(trace: Trace) -> set[int]:
    """The lanes of devices of CPUs."""
    ranks = trace.ranks.filter(pl.col("label").str.starts_with(CPU_LABEL))["rank"]
    return set(trace.lanes.filter(pl.col("rank").is_in(ranks.implode()))["lane"].to_list())


EVENTS_AT_ONCE: Final = 1 << 16
"""Events that are in memory at a time."""

_OP_ARGS: Final = {
    "hlo_op": "name", "hlo_module": "module", "hlo_category": "category", "long_name": "text", "tf_op": "framework",
    "source": "source", "model_flops": "flops", "bytes_accessed": "bytes_accessed", "program_id": "program",
}  # fmt: skip
"""Args with XLA's names, and the columns of `trace.OPS`."""

_EVENT_ARGS: Final = {"run_id": "run", "correlation_id": "correlation", "bytes": "bytes"}
"""Further args, and the columns of `trace.EVENTS`."""

_INTEGER_ARGS: Final = {**_EVENT_ARGS, "produces": "produces", "consumes": "consumes"}
"""All args that are whole numbers: the last two are of the facet ``handed``, which XLA leaves out of its JSON."""

_EVENT_COLUMNS: Final = (
    "id", "start", "end", "name", "kind", "step", "op", "device_start", "device_end", "record", *_EVENT_ARGS.values(),
)  # fmt: skip


class ChromeThread(NamedTuple):
    """One lane in a viewer; `unit` is that of a counter's values, and None for a lane of events."""

    lane: int
    process: int
    number: int
    name: str
    events: int
    unit: str | None


class ChromeProcesses(NamedTuple):
    """The processes (name and host -> number) and threads of a document, and the process of each rank's device.

    `models` and `ranks` are those of the devices, by the numbers of their processes. `hosts` are the names of all hosts
    of the trace.
    """

    numbers: Mapping[tuple[str, int], int]
    hosts: Sequence[str]
    threads: tuple[ChromeThread, ...]
    of_rank: Mapping[int, int]
    models: Mapping[int, str]
    ranks: Mapping[int, int]


def write_xla_document(
    trace: Trace, window: Window, document: ChromeDocument, report_progress: ReportProgress
) -> ExportSummary:
    """Write the events that overlap the window, and the counter tracks of its ranks, to the document."""
    processes, spans = chrome_processes(trace, window), export_windows(trace, window)
    total, events, done = sum(thread.events for thread in processes.threads), 0, 0
    document.begin({"displayTimeUnit": "ns", "metadata": {"highres-ticks": True}})
    document.add(EVENT_SEPARATOR.join(_metadata_events(processes)))
    ops, onto = _OpArgs(trace.ops), _devices_by_launch(trace)
    for thread in processes.threads:
        for at in range(0, thread.events, EVENTS_AT_ONCE):
            rows = trace.events([thread.lane]).slice(at, EVENTS_AT_ONCE).select(_EVENT_COLUMNS)
            if window.limits_time:
                rows = overlapping_events(rows, *spans[thread.lane])
            rows_with_args = add_link_ids(
                trace, thread.lane, add_kernel_details(trace, thread.lane, collect_frame(rows))
            )
            texts = list(_complete_events(rows_with_args, thread, ops, onto))
            document.add(EVENT_SEPARATOR.join(texts))
            events += len(texts)
            done += min(EVENTS_AT_ONCE, thread.events - at)
            report_progress(done / total)
    curves = sum(_write_counter_samples(trace, spans[thread.lane], thread, document) for thread in processes.threads)
    for rank_trace in rank_traces(trace, window):
        target = CounterTrackProcess(b"%d" % processes.of_rank.get(rank_trace.rank, 0), 0)
        for curve in counter_events(rank_trace, target) if rank_trace.rank in processes.of_rank else ():
            document.add(curve)
            curves += 1
    document.end({})
    return ExportSummary(events, curves)


def chrome_processes(trace: Trace, window: Window) -> ChromeProcesses:
    """The processes and threads of the window's lanes, in the order in which they are shown."""
    numbers, threads = dict[tuple[str, int], int](), list[ChromeThread]()
    of_rank, ranks = dict[int, int](), dict[int, int]()
    labels, models, process_models = (
        _rank_labels(trace),
        dict(trace.ranks.select("rank", "model").iter_rows()),
        dict[int, str](),
    )
    there = lane_windows(trace, window)
    for row in trace.lanes_of(window.ranks).filter(pl.col("lane").is_in(list(there))).iter_rows(named=True):
        if row["rank"] is None:
            process, name = _host_process_name(trace, row["host"], row["process"] or ""), row["thread"] or row["name"]
        else:
            part = _plane_part(row["process"] or "")
            process = f"/device:{labels[row['rank']]} {part}".strip()
            name = row["name"].removeprefix(part).strip()
        number = numbers.setdefault((process, row["host"]), len(numbers) + 1)
        if row["rank"] is not None:
            of_rank.setdefault(row["rank"], number)
            process_models[number], ranks[number] = models[row["rank"]], row["rank"]
        unit = row["unit"] or "value" if row["role"] == "counter" and not row["events"] else None
        threads.append(ChromeThread(row["lane"], number, len(threads) + 1, name, row["events"], unit))
    hosts = [host.name for host in trace.hosts]
    return ChromeProcesses(numbers, hosts, tuple(threads), of_rank, process_models, ranks)


def _rank_labels(trace: Trace) -> dict[int, str]:
    """A unique label for each rank: where hosts number their devices alike, with the number of the rank."""
    labels = dict(trace.ranks.select("rank", "label").iter_rows())
    if len(set(labels.values())) == len(labels):
        return labels
    return {rank: f"{label.partition(':')[0]}:{rank}" for rank, label in labels.items()}


def _devices_by_launch(trace: Trace) -> dict[int, int]:
    """The device whose execution each host event launched, as its number in the document; of TPUs.

    Runs have no other number than that on their device, and the enqueues of all devices are on the host.
    """
    devices = {rank: label.partition(":") for rank, label in _rank_labels(trace).items()}
    numbers = {rank: int(number) for rank, (kind, _, number) in devices.items() if kind == "TPU" and number.isdigit()}
    lanes = trace.lanes.filter((pl.col("role") == "modules") & pl.col("rank").is_in(list(numbers)))["lane"].to_list()
    if not lanes:
        return {}
    launches = collect_frame(
        trace.events(lanes).filter(pl.col("launch").is_not_null()).select("launch", "rank").unique()
    )
    return {launch: numbers[rank] for launch, rank in launches.iter_rows()}


def _plane_part(process: str) -> str:
    """The part of a device plane's name after its number: ``SparseCore 0`` of ``/device:TPU:0 SparseCore 0``."""
    return process.partition(" ")[2] if process.startswith("/device:") else ""


def _host_process_name(trace: Trace, host: int, process: str) -> str:
    """The name of a host's process; with several hosts also the host's name."""
    return process if len(trace.hosts) == 1 else f"{process} {trace.hosts[host].name}"


def _metadata_events(processes: ChromeProcesses) -> Iterator[bytes]:
    """Names and order of processes and threads; with several hosts also their host, since names may be equal."""
    for (name, host), number in processes.numbers.items():
        named: dict[str, str | int] = {"name": name}
        if (rank := processes.ranks.get(number)) is not None:
            named["rank"] = rank
        if len(processes.hosts) > 1:
            named |= {"host": host, "hostname": processes.hosts[host]}
        yield encode_json({"ph": "M", "name": "process_name", "pid": number, "args": named})
        yield encode_json({"ph": "M", "name": "process_sort_index", "pid": number, "args": {"sort_index": number}})
        if model := processes.models.get(number):
            yield encode_json({"ph": "M", "name": "process_labels", "pid": number, "args": {"labels": model}})
    for thread in processes.threads:
        if thread.unit is not None:
            continue
        where = {"ph": "M", "pid": thread.process, "tid": thread.number}
        yield encode_json({**where, "name": "thread_name", "args": {"name": thread.name}})
        yield encode_json({**where, "name": "thread_sort_index", "args": {"sort_index": thread.number}})


def _write_counter_samples(trace: Trace, span: Interval, thread: ChromeThread, document: ChromeDocument) -> bool:
    """Write the samples of a counter of the trace in its lane's window; returns whether there are any."""
    if thread.unit is None or is_exported_counter(thread.name):  # it is made anew
        return False
    samples = trace.samples(thread.lane).filter(pl.col("time").is_between(*span))
    head = {"ph": "C", "name": thread.name, "pid": thread.process}
    texts = [
        encode_json({**head, "ts": msgspec.Raw(format_us(time).encode()), "args": {thread.unit: value}})
        for time, value in samples.iter_rows()
    ]
    document.add(EVENT_SEPARATOR.join(texts))
    return bool(texts)


class _OpArgs(dict[int, bytes]):
    """The args of each op's events, as JSON without brackets."""

    def __init__(self, ops: pl.DataFrame) -> None:
        super().__init__()
        self._ops = ops
        self._rows = {op: row for row, op in enumerate(ops["op"].to_list())}

    def __missing__(self, op: int) -> bytes:
        row: dict[str, Any] = self._ops.row(self._rows[op], named=True)
        column_of_lane = {arg: row[column] for arg, column in _OP_ARGS.items() if row[column] is not None}
        text = self[op] = encode_json(column_of_lane)[1:-1]
        return text


def _complete_events(
    rows: pl.DataFrame, thread: ChromeThread, ops: _OpArgs, onto: Mapping[int, int]
) -> Iterator[bytes]:
    """The events of a lane, each as JSON."""
    names = {name: encode_json(name) for name in rows["name"].unique().cast(pl.String).to_list()}
    for row in rows.with_columns(pl.col("name").cast(pl.String)).iter_rows(named=True):
        yield b'{"ph":"X","pid":%d,"tid":%d,"ts":%b,"dur":%b,"name":%b,"args":{%b}}' % (
            thread.process,
            thread.number,
            format_us(row["start"]).encode(),
            format_us(row["end"] - row["start"]).encode(),
            names[row["name"]],
            b",".join(_event_args(row, ops, onto)),
        )


def _event_args(row: Mapping[str, Any], ops: _OpArgs, onto: Mapping[int, int]) -> Iterator[bytes]:
    """The args of an event, each as JSON."""
    if row["op"] is not None:
        yield ops[row["op"]]
        if row["kind"] == "copy":  # the category does not tell: data formatting may be one
            yield b'"kind":"copy"'
    elif row["kind"] == "op":  # on a thread of the host
        yield b'"hlo_op":' + encode_json(row["name"])
    for arg, column in _INTEGER_ARGS.items():
        if row[column] is not None:
            yield b'"%b":%d' % (arg.encode(), row[column])
    if row["details"]:
        yield b'"kernel_details":' + encode_json(row["details"])
    if (device := onto.get(row["id"])) is not None:
        yield b'"device_ordinal":%d' % device
    if row["kind"] == "step" and row["step"] is not None:
        yield b'"step_num":%d' % row["step"]
    if row["device_start"] is not None and row["device_end"] is not None:
        yield b'"device_offset_ps":%d' % row["device_start"]
        yield b'"device_duration_ps":%d' % (row["device_end"] - row["device_start"])
