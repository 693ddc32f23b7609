"""The model of an XLA trace -> a document of Chrome trace events, in the form that XLA itself writes.

Owns its processes and threads (a process for each device and host, a thread for each lane), and what of an event goes
into its args. Times are those of the trace, in microseconds to the picosecond. A batch of rows is in memory at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import polars as pl

from tracehound.analysis.share import overlapping, shares
from tracehound.analysis.spans.windows import Span, of_lanes
from tracehound.export.counters import Place, drawn
from tracehound.export.document import NEXT, Document, us
from tracehound.export.launches import with_details, with_links
from tracehound.export.reach import reach
from tracehound.export.written import Tell, Written
from tracehound.formats.exported import exported
from tracehound.formats.json.elements import encoded
from tracehound.trace import Trace, Window, collected

BATCH: Final = 1 << 16
"""Events that are held at once."""

_OF_OP: Final = {
    "hlo_op": "name", "hlo_module": "module", "hlo_category": "category", "long_name": "text", "tf_op": "framework",
    "source": "source", "model_flops": "flops", "bytes_accessed": "bytes_accessed", "program_id": "program",
}  # fmt: skip
"""Args as XLA calls them, and the columns of `trace.OPS`."""

_OF_EVENT: Final = {"run_id": "run", "correlation_id": "correlation", "bytes": "bytes"}
"""Further args, and the columns of `trace.EVENTS`."""

_WHOLE: Final = {**_OF_EVENT, "produces": "produces", "consumes": "consumes"}
"""All args that are whole numbers: the last are of the facet ``handed``, which XLA keeps out of its JSON."""

_COLUMNS: Final = (
    "id", "start", "end", "name", "kind", "step", "op", "device_start", "device_end", "record", *_OF_EVENT.values(),
)  # fmt: skip


class Thread(NamedTuple):
    """One lane as a viewer sees it; `unit` is that of a counter's values, and None for a lane of events."""

    lane: int
    process: int
    number: int
    name: str
    events: int
    unit: str | None


class Processes(NamedTuple):
    """The processes (name and host -> number) and threads of a document, and the process of each rank's device.

    `models` and `ranks` are those of the devices, by the numbers of their processes. `hosts` are the names of all of
    the trace.
    """

    numbers: Mapping[tuple[str, int], int]
    hosts: Sequence[str]
    threads: tuple[Thread, ...]
    of_rank: Mapping[int, int]
    models: Mapping[int, str]
    ranks: Mapping[int, int]


def modelled(trace: Trace, window: Window, document: Document, tell: Tell) -> Written:
    """Write the events that overlap the window, and the curves of its ranks, to the document."""
    processes, spans = placed(trace, window), reach(trace, window)
    total, events, done = sum(thread.events for thread in processes.threads), 0, 0
    document.begin({"displayTimeUnit": "ns", "metadata": {"highres-ticks": True}})
    document.add(NEXT.join(_named(processes)))
    ops, onto = _Ops(trace.ops), _enqueues(trace)
    for thread in processes.threads:
        for at in range(0, thread.events, BATCH):
            rows = trace.events([thread.lane]).slice(at, BATCH).select(_COLUMNS)
            if window.timed:
                rows = overlapping(rows, *spans[thread.lane])
            told = with_links(trace, thread.lane, with_details(trace, thread.lane, collected(rows)))
            texts = list(_events(told, thread, ops, onto))
            document.add(NEXT.join(texts))
            events += len(texts)
            done += min(BATCH, thread.events - at)
            tell(done / total)
    curves = sum(_copied(trace, spans[thread.lane], thread, document) for thread in processes.threads)
    for share in shares(trace, window):
        place = Place(b"%d" % processes.of_rank.get(share.rank, 0), 0)
        for curve in drawn(share, place) if share.rank in processes.of_rank else ():
            document.add(curve)
            curves += 1
    document.end({})
    return Written(events, curves)


def placed(trace: Trace, window: Window) -> Processes:
    """The processes and threads of the lanes that the window lies on, in the order in which they are shown."""
    numbers, threads = dict[tuple[str, int], int](), list[Thread]()
    of_rank, ranks = dict[int, int](), dict[int, int]()
    labels, models, told = _labels(trace), dict(trace.ranks.select("rank", "model").iter_rows()), dict[int, str]()
    there = of_lanes(trace, window)
    for row in trace.lanes_of(window.ranks).filter(pl.col("lane").is_in(list(there))).iter_rows(named=True):
        if row["rank"] is None:
            process, name = _host(trace, row["host"], row["process"] or ""), row["thread"] or row["name"]
        else:
            part = _part(row["process"] or "")
            process = f"/device:{labels[row['rank']]} {part}".strip()
            name = row["name"].removeprefix(part).strip()
        number = numbers.setdefault((process, row["host"]), len(numbers) + 1)
        if row["rank"] is not None:
            of_rank.setdefault(row["rank"], number)
            told[number], ranks[number] = models[row["rank"]], row["rank"]
        unit = row["unit"] or "value" if row["role"] == "counter" and not row["events"] else None
        threads.append(Thread(row["lane"], number, len(threads) + 1, name, row["events"], unit))
    hosts = [host.name for host in trace.hosts]
    return Processes(numbers, hosts, tuple(threads), of_rank, told, ranks)


def _labels(trace: Trace) -> dict[int, str]:
    """A label for each rank that no other has: where hosts number their devices alike, with the number of the rank."""
    labels = dict(trace.ranks.select("rank", "label").iter_rows())
    if len(set(labels.values())) == len(labels):
        return labels
    return {rank: f"{label.partition(':')[0]}:{rank}" for rank, label in labels.items()}


def _enqueues(trace: Trace) -> dict[int, int]:
    """The device whose execution each host event launched, as its number in the document; of TPUs.

    Runs have no other number than that on their device, and the enqueues of all devices lie on the host.
    """
    devices = {rank: label.partition(":") for rank, label in _labels(trace).items()}
    numbers = {rank: int(number) for rank, (kind, _, number) in devices.items() if kind == "TPU" and number.isdigit()}
    lanes = trace.lanes.filter((pl.col("role") == "modules") & pl.col("rank").is_in(list(numbers)))["lane"].to_list()
    if not lanes:
        return {}
    told = collected(trace.events(lanes).filter(pl.col("launch").is_not_null()).select("launch", "rank").unique())
    return {launch: numbers[rank] for launch, rank in told.iter_rows()}


def _part(process: str) -> str:
    """What a device's plane is called after its number: ``SparseCore 0`` of ``/device:TPU:0 SparseCore 0``."""
    return process.partition(" ")[2] if process.startswith("/device:") else ""


def _host(trace: Trace, host: int, process: str) -> str:
    return process if len(trace.hosts) == 1 else f"{process} {trace.hosts[host].name}"


def _named(processes: Processes) -> Iterator[bytes]:
    """The names and the order of processes and threads; of several hosts, whose they are: their names may be alike."""
    for (name, host), number in processes.numbers.items():
        named: dict[str, str | int] = {"name": name}
        if (rank := processes.ranks.get(number)) is not None:
            named["rank"] = rank
        if len(processes.hosts) > 1:
            named |= {"host": host, "hostname": processes.hosts[host]}
        yield encoded({"ph": "M", "name": "process_name", "pid": number, "args": named})
        yield encoded({"ph": "M", "name": "process_sort_index", "pid": number, "args": {"sort_index": number}})
        if model := processes.models.get(number):
            yield encoded({"ph": "M", "name": "process_labels", "pid": number, "args": {"labels": model}})
    for thread in processes.threads:
        if thread.unit is not None:
            continue
        where = {"ph": "M", "pid": thread.process, "tid": thread.number}
        yield encoded({**where, "name": "thread_name", "args": {"name": thread.name}})
        yield encoded({**where, "name": "thread_sort_index", "args": {"sort_index": thread.number}})


def _copied(trace: Trace, span: Span, thread: Thread, document: Document) -> bool:
    """Write the samples of a counter of the trace that lie in its lane's window; whether there are any."""
    if thread.unit is None or exported(thread.name):  # it is made anew
        return False
    samples = trace.samples(thread.lane).filter(pl.col("time").is_between(*span))
    head = {"ph": "C", "name": thread.name, "pid": thread.process}
    texts = [
        encoded({**head, "ts": msgspec.Raw(us(time).encode()), "args": {thread.unit: value}})
        for time, value in samples.iter_rows()
    ]
    document.add(NEXT.join(texts))
    return bool(texts)


class _Ops(dict[int, bytes]):
    """What is said of each op in the args of its events, as JSON without brackets."""

    def __init__(self, ops: pl.DataFrame) -> None:
        super().__init__()
        self._ops = ops
        self._rows = {op: row for row, op in enumerate(ops["op"].to_list())}

    def __missing__(self, op: int) -> bytes:
        row: dict[str, Any] = self._ops.row(self._rows[op], named=True)
        said = {arg: row[column] for arg, column in _OF_OP.items() if row[column] is not None}
        text = self[op] = encoded(said)[1:-1]
        return text


def _events(rows: pl.DataFrame, thread: Thread, ops: _Ops, onto: Mapping[int, int]) -> Iterator[bytes]:
    """The events of a lane, each as JSON."""
    names = {name: encoded(name) for name in rows["name"].unique().cast(pl.String).to_list()}
    for row in rows.with_columns(pl.col("name").cast(pl.String)).iter_rows(named=True):
        yield b'{"ph":"X","pid":%d,"tid":%d,"ts":%b,"dur":%b,"name":%b,"args":{%b}}' % (
            thread.process,
            thread.number,
            us(row["start"]).encode(),
            us(row["end"] - row["start"]).encode(),
            names[row["name"]],
            b",".join(_args(row, ops, onto)),
        )


def _args(row: Mapping[str, Any], ops: _Ops, onto: Mapping[int, int]) -> Iterator[bytes]:
    """The args of an event, each as JSON."""
    if row["op"] is not None:
        yield ops[row["op"]]
        if row["kind"] == "copy":  # the category does not tell: data formatting may be one
            yield b'"kind":"copy"'
    elif row["kind"] == "op":  # on a thread of the host
        yield b'"hlo_op":' + encoded(row["name"])
    for arg, column in _WHOLE.items():
        if row[column] is not None:
            yield b'"%b":%d' % (arg.encode(), row[column])
    if row["details"]:
        yield b'"kernel_details":' + encoded(row["details"])
    if (device := onto.get(row["id"])) is not None:
        yield b'"device_ordinal":%d' % device
    if row["kind"] == "step" and row["step"] is not None:
        yield b'"step_num":%d' % row["step"]
    if row["device_start"] is not None and row["device_end"] is not None:
        yield b'"device_offset_ps":%d' % row["device_start"]
        yield b'"device_duration_ps":%d' % (row["device_end"] - row["device_start"])
