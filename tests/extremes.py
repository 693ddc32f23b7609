"""Small traces with every kind of field, and the same with any of their numbers replaced by an extreme one."""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from hloprotos import F32, array, computation, instruction, numbers, proto, summing
from xspaces import MASK, Event, Line, Plane, Stat, block, space, varint, whole

EXTREMES = (0, -1, 1 << 31, 1 << 53, (1 << 63) - 1, (1 << 64) - 1, math.nan, 1e308)
"""What stands in place of a number: bounds of types, and what is no number."""


class Mutation(NamedTuple):
    """A file in which one number, or every number of one kind, is another; `where` says which."""

    where: str
    extreme: float
    data: Callable[[], bytes]


# JSON

Place = tuple[str | int | None, ...]
"""The members and the places in lists and texts (None: all of them) that lead to a number."""

_WHOLE = re.compile(r"(?<![\w.])\d+(?![\w.])")


def in_json(document: Any) -> Iterator[Mutation]:
    """The first number of each kind, in texts too, replaced alone, and all with the same path at once."""
    first, together = dict[tuple[str, ...], Place](), dict[Place, None]()
    for place, kind in _places(document, (), ()):
        first.setdefault(kind, place)
        together[*(None if isinstance(step, int) else step for step in place[:-1]), place[-1]] = None
    for place in dict.fromkeys([*first.values(), *together]):
        where = "/".join("*" if step is None else str(step) for step in place)
        for extreme in EXTREMES:
            yield Mutation(where, extreme, partial(_json, document, place, extreme))


def _json(document: Any, place: Place, extreme: float) -> bytes:
    return json.dumps(_replaced(document, place, extreme)).encode()


def _places(value: Any, before: Place, kind: tuple[str, ...]) -> Iterator[tuple[Place, tuple[str, ...]]]:
    """Where the numbers are, and of which kind each is: that of members of elements by the names of these."""
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _places(each, (*before, name), (*kind, name))
    elif isinstance(value, list):
        for at, each in enumerate(value):
            of = (
                _WHOLE.sub("", each.get("name", ""))
                if isinstance(each, dict)
                else "*"
                if isinstance(each, list)
                else str(at)
            )
            yield from _places(each, (*before, at), (*kind, of))
    elif isinstance(value, str):
        for at, _ in enumerate(_WHOLE.finditer(value)):
            yield (*before, at), (*kind, str(at))
    elif isinstance(value, int | float):
        yield before, kind


def _replaced(value: Any, place: Place, extreme: float) -> Any:
    if isinstance(value, str):
        number = 0 if not place else place[0]
        matches = list(_WHOLE.finditer(value))
        for at in range(len(matches) - 1, -1, -1):
            if number in (None, at):
                low, high = matches[at].span()
                value = f"{value[:low]}{extreme}{value[high:]}"
        return value
    if not place:
        return extreme if isinstance(value, int | float) else value
    step, after = place[0], place[1:]
    if isinstance(value, dict):
        return {name: _replaced(each, after, extreme) if name == step else each for name, each in value.items()}
    if isinstance(value, list):
        return [_replaced(each, after, extreme) if step in (None, at) else each for at, each in enumerate(value)]
    return value


# Protocol buffers

MESSAGES: Mapping[str, Mapping[int, str]] = {
    "space": {1: "plane"},
    "plane": {3: "line", 4: "metadata entry", 5: "name entry", 6: "stat"},
    "line": {4: "event"},
    "event": {4: "stat"},
    "metadata entry": {2: "metadata"},
    "metadata": {5: "stat"},
    "name entry": {2: "name"},
    "stat": {},
    "hlo": {1: "module", 3: "assignment"},
    "module": {3: "computation", 15: "devices"},
    "devices": {3: "computation devices"},
    "computation devices": {1: "packed"},
    "computation": {2: "instruction"},
    "instruction": {3: "shape", 30: "dot", 36: "packed", 38: "packed", 15: "window", 16: "convolution"},
    "dot": {1: "packed", 2: "packed"},
    "window": {1: "side"},
    "convolution": {11: "packed", 12: "packed"},
    "shape": {3: "packed", 4: "shape", 5: "layout"},
    "layout": {1: "packed", 6: "tile"},
    "tile": {1: "packed"},
    "assignment": {1: "logical", 3: "allocation", 4: "heap"},
    "logical": {4: "defined"},
    "defined": {3: "packed"},
    "allocation": {9: "assigned"},
    "heap": {1: "heap event"},
    "breakdown": {1: "access"},
}
"""The messages inside messages, by the numbers of their fields; those without any are left out."""


class Part(NamedTuple):
    """One field: `value` is a number, bytes, or the parts of a message of that name; packed numbers are `number` 0."""

    number: int
    wire: int
    value: Any
    name: str = ""


def parsed(data: bytes, name: str = "space") -> list[Part]:
    """The fields of a message."""
    found, at = list[Part](), 0
    while at < len(data):
        if name == "packed":
            value, at = _varint(data, at)
            found.append(Part(0, 0, value))
            continue
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = _varint(data, at)
            found.append(Part(number, wire, value))
        elif wire == 1:
            found.append(Part(number, wire, data[at : at + 8]))
            at += 8
        else:
            size, at = _varint(data, at)
            inner = data[at : at + size]
            at += size
            of = MESSAGES.get(name, {}).get(number, _blob(inner) if (name, number) == ("stat", 6) else "")
            found.append(Part(number, wire, parsed(inner, of) if of else inner, of))
    return found


def _blob(data: bytes) -> str:
    """What lies in the bytes of a stat."""
    return "hlo" if b"jit_f" in data else "breakdown"


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 0x80:
            return value, at


def in_wire(data: bytes) -> Iterator[Mutation]:
    """The first number of each kind in an XSpace, in texts too, replaced alone, and all of that kind at once."""
    sound = parsed(data)
    kinds = dict[str, list[tuple[int, ...]]]()
    for place, kind in _of_wire(sound, (), "space"):
        kinds.setdefault(kind, []).append(place)
    for kind, every in kinds.items():
        for places in {1: every[:1], len(every): every}.values():
            for extreme in EXTREMES:
                made = partial(_written, sound, frozenset(places), extreme)
                yield Mutation(f"{kind}, {len(places)} of {len(every)}", extreme, made)


def _of_wire(parts: list[Part], before: tuple[int, ...], name: str) -> Iterator[tuple[tuple[int, ...], str]]:
    """Where the numbers are, and of which kind each is."""
    owner = name if name != "stat" else f"stat {next(part.value for part in parts if part.number == 1)}"
    for at, part in enumerate(parts):
        place, kind = (*before, at), f"{owner} {part.number}"
        if isinstance(part.value, list):
            yield from _of_wire(part.value, place, part.name)
        elif part.wire in (0, 1):
            yield place, kind
        else:
            text = part.value.decode("utf-8", "replace")
            yield from (((*place, -1 - each), f"{kind} text {each}") for each, _ in enumerate(_WHOLE.finditer(text)))


def _written(
    parts: list[Part], places: Collection[tuple[int, ...]], extreme: float, before: tuple[int, ...] = ()
) -> bytes:
    out = list[bytes]()
    for at, part in enumerate(parts):
        place = (*before, at)
        number, wire, value, _ = part
        if isinstance(value, list):
            out.append(block(number, _written(value, places, extreme, place)))
        elif wire == 0:
            bits = _as_bits(extreme) if place in places else value
            out.append(whole(number, bits) if number else varint(bits))
        elif wire == 1:
            out.append(varint(number << 3 | wire) + (struct.pack("<d", extreme) if place in places else value))
        else:
            texts = {-1 - one[-1] for one in places if one[:-1] == place and one[-1] < 0}
            out.append(block(number, _in_text(value, texts, extreme) if texts else value))
    return b"".join(out)


def _in_text(value: bytes, which: set[int], extreme: float) -> str:
    text = value.decode()
    for at, match in reversed(list(enumerate(_WHOLE.finditer(text)))):
        if at in which:
            text = f"{text[: match.start()]}{extreme}{text[match.end() :]}"
    return text


def _as_bits(extreme: float) -> int:
    if isinstance(extreme, int):
        return extreme & MASK
    return int.from_bytes(struct.pack("<d", extreme), "little")


# Samples

BASE = 1_790_857_026_000_000_000


def kineto() -> dict[str, Any]:
    """A Kineto file of 2 steps on a GPU, with every kind of event."""
    device = {
        "id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85899345920, "computeMajor": 9, "computeMinor": 0,
        "maxThreadsPerBlock": 1024, "maxThreadsPerMultiprocessor": 2048, "regsPerBlock": 65536, "warpSize": 32,
        "sharedMemPerBlock": 49152, "numSms": 132, "regsPerMultiprocessor": 65536, "sharedMemPerBlockOptin": 232448,
        "sharedMemPerMultiprocessor": 233472,
    }  # fmt: skip
    return {
        "schemaVersion": 1,
        "deviceProperties": [device],
        "cupti_version": 22,
        "cuda_runtime_version": 12040,
        "cuda_driver_version": 12040,
        "record_shapes": 1,
        "profile_memory": 1,
        "with_stack": 1,
        "distributedInfo": {
            "backend": "nccl", "rank": 0, "world_size": 2, "pg_count": 1, "nccl_version": "2.21.5",
            "pg_config": [{"pg_name": "0", "pg_desc": "default_pg", "pg_size": 2, "ranks": [0, 1]}],
        },
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": BASE,
        "traceEvents": [
            {"ph": "M", "name": "process_name", "pid": 5, "tid": 0, "ts": 4000, "args": {"name": "python"}},
            {"ph": "M", "name": "thread_sort_index", "pid": 5, "tid": 5, "ts": 4000, "args": {"sort_index": 5}},
            *(event for number in (0, 1) for event in _step(number)),
            {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": "PyTorch Profiler",
             "ts": 4000.5, "dur": 900, "args": {"Op count": 0}},
            {"ph": "i", "s": "g", "name": "Iteration Start: PyTorch Profiler", "pid": "Traces", "tid": "Trace",
             "ts": 4000},
            {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": 4950},
        ],
    }  # fmt: skip


def _step(number: int) -> list[dict[str, Any]]:
    start, ids = 4010 + 400 * number, 100 * (number + 1)

    def host(cat: str, name: str, at: float, dur: float, **args: object) -> dict[str, Any]:
        return {"ph": "X", "cat": cat, "name": name, "pid": 5, "tid": 5, "ts": start + at, "dur": dur, "args": args}

    def launch(name: str, at: float, id_: int) -> dict[str, Any]:
        return host("cuda_runtime", name, at, 3, **{"External id": ids, "cbid": 211, "correlation": ids + id_})

    def device(cat: str, name: str, at: float, dur: float, id_: int, **args: object) -> dict[str, Any]:
        said = {"External id": ids, "device": 0, "stream": 7, "correlation": ids + id_, "context": 1, **args}
        return {"ph": "X", "cat": cat, "name": name, "pid": 0, "tid": 7, "ts": start + at, "dur": dur, "args": said}

    def memory(at: float, size: int, total: int) -> dict[str, Any]:
        args = {"Total Reserved": 1 << 20, "Total Allocated": total, "Bytes": size, "Addr": 140_000_000 + number,
                "Device Id": 0, "Device Type": 1, "Ev Idx": 3}  # fmt: skip
        return {"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "pid": 5, "tid": 5,
                "ts": start + at, "args": args}  # fmt: skip

    kernel = {"queued": 0, "registers per thread": 168, "shared memory": 4096, "blocks per SM": 0.5,
              "warps per SM": 4.0, "grid": [66, 1, 1],
              "block": [256, 1, 1], "est. achieved occupancy %": 12}  # fmt: skip
    comm = {"Collective name": "allreduce", "In msg nelems": 1024, "Out msg nelems": 1024, "Group size": 2,
            "dtype": "Float", "In split size": "[1]", "Out split size": "[1]", "Process Group Name": "0",
            "Process Group Description": "default_pg", "Process Group Ranks": "[0, 1]", "Seq": number,
            "Src Rank": 0, "Dst Rank": 1, "Rank": 0}  # fmt: skip
    called = {"External id": ids, "Record function id": 0, "Sequence number": number, "Fwd thread id": 0, "Ev Idx": 2,
              "Concrete Inputs": ["", "", "1"], "Input type": ["float", "float", "Scalar"],
              "Input Strides": [[64, 1], [64, 1], []], "Input Dims": [[64, 64], [64, 64], []]}  # fmt: skip
    copy = {"bytes": 4096, "memory bandwidth (GB/s)": 0.4}
    return [
        host("user_annotation", f"ProfilerStep#{number}", 0, 380, **{"External id": ids, "Record function id": 0}),
        host("python_function", "train.py(12): step", 1, 300,
             **{"Python parent id": 1, "Python id": 2 + number, "Ev Idx": 1}),
        host("python_function", "nn.Module: Linear_0", 2, 100,
             **{"Python parent id": 2, "Python id": 9 + number, "Python module id": 0, "Ev Idx": 1}),
        host("cpu_op", "aten::mm", 5, 60, **called),
        launch("cudaLaunchKernel", 10, 1),
        {"ph": "s", "id": ids, "pid": 5, "tid": 5, "ts": start + 11, "cat": "ac2g", "name": "ac2g"},
        {"ph": "f", "id": ids, "pid": 0, "tid": 7, "ts": start + 20, "cat": "ac2g", "name": "ac2g", "bp": "e"},
        device("kernel", "ampere_sgemm_128x64_tn", 20, 50, 1, **kernel),
        launch("cudaMemcpyAsync", 70, 2),
        device("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 80, 10, 2, **copy),
        launch("cudaMemsetAsync", 90, 3),
        device("gpu_memset", "Memset (Device)", 100, 5, 3, bytes=512),
        memory(110, 4096, 8192), memory(120, -4096, 4096),
        host("cpu_op", "record_param_comms", 130, 9, **{"External id": ids + 5, **comm}),
        launch("cudaLaunchKernel", 131, 4),
        {**device("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 140, 90, 4, **kernel, **comm), "tid": 20},
        device("gpu_user_annotation", "forward", 20, 120, 1),
        launch("cudaStreamWaitEvent", 150, 6),
        device("cuda_sync", "Stream Wait Event", 151, 20, 6, wait_on_stream=20,
               wait_on_cuda_event_record_corr_id=ids + 4, wait_on_cuda_event_id=1),
        launch("cudaDeviceSynchronize", 300, 7),
        host("cpu_op", "autograd::engine::evaluate_function: MmBackward0", 320, 20, **called),
        host("overhead", "Activity Buffer Request", 350, 5),
        {"ph": "C", "cat": "gpu_power", "name": "GPU 0 power", "pid": 0, "tid": 0, "ts": start + 200,
         "args": {"watts": 300.5}},
    ]  # fmt: skip


def memory_timeline() -> list[list[int]]:
    """A memory timeline of a few rows."""
    rows = [[BASE + 1000 * at, 1 + at % 3, 512 if at % 3 else -512, at % 8] for at in range(6)]
    return [rows[0], [-1, 0, 4096, 0], *rows[1:]]


def hlo() -> bytes:
    """An HloProto with a product, a collective, a fusion and a buffer assignment."""
    dot = block(30, numbers(1, 1) + numbers(2, 0))
    main = computation(
        1, "main", 14,
        instruction(11, "p", "parameter", array(F32, 128, 128), whole(9, 0)),
        instruction(12, "dot.1", "dot", array(F32, 128, 128), dot, operands=(11, 11)),
        instruction(13, "fusion.1", "fusion", array(F32, 128, 128), operands=(12,), calls=(9,)),
        instruction(14, "all-reduce.1", "all-reduce", array(F32, 128, 128), operands=(13,), calls=(9,)),
    )  # fmt: skip
    logical = b"".join(
        block(1, whole(1, id_) + whole(2, 65536) + whole(3, 0) + block(4, whole(4, 10 + id_) + numbers(3, 0)))
        for id_ in (1, 2, 3)
    )
    allocation = block(3, whole(1, 1) + whole(2, 65536) + whole(5, 1) + whole(8, 0) + block(9, whole(1, 1)))
    temporary = block(3, whole(1, 2) + whole(2, 131072) + whole(8, 0) + block(9, whole(1, 2)) + block(9, whole(1, 3)))
    heap = b"".join(block(1, whole(1, kind) + whole(2, id_)) for kind, id_ in ((0, 2), (0, 3), (1, 2), (1, 3)))
    assignment = logical + allocation + temporary + block(4, heap + whole(3, 2))
    devices = block(15, whole(1, 1) + whole(2, 2) + block(3, numbers(1, 0)) + block(3, numbers(1, 1)))
    return proto(main, summing(), more=devices, beside=block(3, assignment))


def xplane() -> bytes:
    """An XSpace of a TPU, a GPU and a host, with every kind of line."""
    environment = Plane(
        "Task Environment",
        stats=[Stat("profile_start_time", 3, BASE), Stat("profile_stop_time", 3, BASE + 10**9)],
    )
    programs = Plane("/host:metadata", metadata_stats={"jit_f(3)": [Stat("Hlo Proto", 6, hlo())]})
    return space(environment, _tpu(), _gpu(), _host(), programs, hostname="vm")


def _tpu() -> Plane:
    steps = [Event(str(at), 1000 + 40000 * at, 30000, [Stat("step_num", 4, at)]) for at in (0, 1)]
    modules = [Event("jit_f(7)", 1000 + 40000 * at, 30000, [Stat("run_id", 4, 5 + at)]) for at in (0, 1)]
    add, copy = "%add = f32[64]{0} add(f32[64]{0} %a, f32[64]{0} %b)", "%c = f32[8]{0:S(5)} copy-start(f32[8]{0} %p)"
    reduce = "%all-reduce.2 = f32[64]{0} all-reduce(f32[64]{0} %add), channel_id=1, replica_groups={{0,1}}"
    ops = [
        Event(name, 2000 + 40000 * at + 5000 * place, 4000,
              [Stat("device_offset_ps", 3, 2000), Stat("device_duration_ps", 3, 3900)])
        for at in (0, 1) for place, name in enumerate((add, reduce))
    ]  # fmt: skip
    shared = [
        Stat("program_id", 3, 7), Stat("flops", 4, 640), Stat("model_flops", 4, 640), Stat("bytes_accessed", 4, 768),
        Stat("hlo_category", 5, "non-fusion elementwise"),
        Stat("memory_access_breakdown", 6, block(1, whole(1, 1) + whole(2, 1) + whole(3, 512))
             + block(1, whole(1, 2) + whole(2, 3) + whole(3, 256))),
    ]  # fmt: skip
    return Plane(
        "/device:TPU:0",
        [
            Line("Steps", steps, 1), Line("XLA Modules", modules, 2), Line("XLA Ops", ops, 3),
            Line("Async XLA Ops", [Event(copy, 30000, 6000)], 4),
            Line("_counters_", [Event("HBM", 5000, 0, [Stat("value", 4, 7)]),
                                Event("HBM", 9000, 0, [Stat("value", 2, 7.5)])], 5),
        ],
        [
            Stat("device_type_string", 5, "TPU v5p"), Stat("peak_teraflops_per_second", 2, 459.0),
            Stat("peak_hbm_bw_gigabytes_per_second", 2, 2765.0), Stat("core_details", 5, "1"),
            Stat("peak_vmem_rd_bw_gigabytes_per_second", 2, 9000.0), Stat("global_chip_id", 4, 0),
        ],
        {add: shared, reduce: shared, copy: shared[:1]},
    )  # fmt: skip


def _gpu() -> Plane:
    details = "regs:32 static_shared:0 dynamic_shared:1024 grid:11,16,2 block:256,1,1 occ_pct:50"
    work = [
        Event(name, 3000 + 40000 * at + 5000 * place, 4000,
              [Stat("correlation_id", 4, 10 * at + place), Stat("hlo_op", 5, op), Stat("hlo_module", 5, "jit_f"),
               Stat("program_id", 4, 3), Stat("kernel_details", 5, details), Stat("context_id", 4, 1)])
        for at in (0, 1) for place, (name, op) in enumerate((("gemm", "dot.1"), ("ncclDevKernel", "all-reduce.1")))
    ]  # fmt: skip
    copies = [
        Event("MemcpyH2D", 20000 + 40000 * at, 900,
              [Stat("memcpy_details", 5, "kind:HtoD num_bytes:4096 dest:0 async:1"),
               Stat("correlation_id", 4, 10 * at + 5)])
        for at in (0, 1)
    ]  # fmt: skip
    stats = [
        Stat("device_vendor", 5, "Nvidia"), Stat("core_count", 4, 132), Stat("clock_rate", 4, 1_980_000),
        Stat("compute_cap_major", 4, 9), Stat("compute_cap_minor", 4, 0), Stat("memory_bandwidth", 4, 3_352 * 10**9),
        Stat("memory_size", 4, 85_899_345_920),
    ]  # fmt: skip
    return Plane("/device:GPU:0", [Line("Stream #7(Compute)", work, 7), Line("Stream #8(MemcpyH2D)", copies, 8)], stats)


def _host() -> Plane:
    def held(at: int, name: str, size: int) -> Event:
        stats = {"index_on_host": 0, "bytes_reserved": 10, "bytes_allocated": size, "bytes_available": 1 << 20,
                 "peak_bytes_in_use": 9000, "requested_bytes": 500, "allocation_bytes": 512, "addr": 4096}  # fmt: skip
        told = [Stat(name, 4, value) for name, value in stats.items()]
        return Event(name, at, 0, [Stat("allocator_name", 5, "GPU_0_bfc"), *told, Stat("fragmentation", 2, 0.25)])

    events = list[Event]()
    for at in (0, 1):
        start = 500 + 40000 * at
        events += [
            Event("train", start, 39000, [Stat("_r", 4, 1), Stat("step_num", 4, at)]),
            Event("PjitFunction(f)", start + 1, 900, [Stat("_pt", 4, 12), Stat("_p", 4, 70 + at)]),
            Event("Execute", start + 950, 100, [Stat("_ct", 4, 12), Stat("_c", 4, 70 + at), Stat("run_id", 4, 5 + at)]),
            *(Event("cuLaunchKernel", start + 1100 + 100 * place, 50, [Stat("correlation_id", 4, 10 * at + place)])
              for place in (0, 1, 5)),
            held(start + 2000, "MemoryAllocation", 4096), held(start + 3000, "MemoryDeallocation", 3584),
        ]  # fmt: skip
    events.append(Event("jit_compile", 90000, 500, occurrences=3))
    return Plane("/host:CPU", [Line("python", events, 1, 0)])


def chrome() -> dict[str, Any]:
    """The Chrome form of a small profile of a TPU."""

    def event(pid: int, tid: int, name: str, ts: float, dur: float, **args: object) -> dict[str, Any]:
        return {"ph": "X", "pid": pid, "tid": tid, "name": name, "ts": ts, "dur": dur, "args": args}

    def called(what: str, pid: int, tid: int, name: str) -> dict[str, Any]:
        return {"ph": "M", "pid": pid, "tid": tid, "name": what, "args": {"name": name}}

    op = {"hlo_category": "convolution fusion", "hlo_op": "fusion.1", "hlo_module": "jit_f", "model_flops": "4096",
          "bytes_accessed": "768", "program_id": "7", "device_offset_ps": "2000", "device_duration_ps": "3900",
          "long_name": "%fusion.1 = f32[64,64]{1,0} fusion(f32[64,64]{1,0} %a)"}  # fmt: skip
    events = [
        called("process_name", 3, 0, "/device:TPU:0"), called("thread_name", 3, 1, "Steps"),
        called("thread_name", 3, 2, "XLA Modules"), called("thread_name", 3, 3, "XLA Ops"),
        called("process_name", 701, 0, "/host:CPU"), called("thread_name", 701, 9, "python"),
        called("process_name", 4, 0, "/device:GPU:0"), called("thread_name", 4, 7, "Stream #7(Compute)"),
        {"ph": "M", "pid": 3, "name": "process_sort_index", "args": {"sort_index": 3}},
    ]  # fmt: skip
    for at in (0, 1):
        start = 10 + 100 * at
        events += [
            event(3, 1, str(at), start, 80), event(3, 2, "jit_f(7)", start, 80.5, run_id=str(5 + at)),
            event(3, 3, "fusion.1", start + 5, 30.25, **op), event(3, 3, "fusion.1", start + 40, 10, **op),
            event(701, 9, "train", start - 5, 95, step_num=str(at), group_id=at),
            event(701, 9, "PjitFunction(f)", start - 4, 3, run_id=str(5 + at)),
            event(701, 9, "cuLaunchKernel", start, 1, correlation_id=str(at)),
            event(4, 7, "gemm", start + 5, 20, correlation_id=str(at), hlo_op="dot.1", hlo_module="jit_f",
                  kernel_details="regs:32 static_shared:0 dynamic_shared:1024 grid:11,16,2 block:256,1,1 occ_pct:50"),
            event(4, 7, "MemcpyH2D", start + 30, 5, memcpy_details="kind:HtoD size:4096 dest:0 async:1"),
            {"ph": "C", "pid": 3, "name": "HBM", "ts": start, "args": {"bytes": 7}},
        ]  # fmt: skip
    return {"displayTimeUnit": "ns", "metadata": {"highres-ticks": True}, "traceEvents": [*events, {}]}
