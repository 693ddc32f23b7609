"""Facts of a trace file: everything that it says about its run beside its events, in one type for all formats.

Each format sets what its files have. Whole numbers beyond Int64 count as not recorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, field


class PeekedFacts(Struct, frozen=True):
    """Facts from the ends of a file, known before it is read. Unset: they are not there.

    `rank` is that of the process, `world_size` the number of ranks of the job, `backend` that of torch.distributed
    ("nccl"). `devices` are labels such as "TPU:0", else the names of models; `host` is the name of the machine.

    `process` is the id of the first process of a host, without the mark of a merged file; `merged` is true if it has
    one. `start_ns` and `end_ns` are about the first and the last time, since 1970 if `wall`, else in the file's own
    time. `first_events` are the names, times and durations of the first events, as they are written.
    """

    rank: int | None = None
    world_size: int | None = None
    backend: str | None = None
    devices: tuple[str, ...] = ()
    host: str | None = None
    process: int | str | None = None
    merged: bool = False
    start_ns: int | None = None
    end_ns: int | None = None
    wall: bool = False
    first_events: tuple[tuple[object, ...], ...] = ()


class ProcessGroup(Struct, frozen=True):
    """A process group of torch.distributed (an item of ``pg_config``), with the ranks of its members."""

    name: str
    ranks: tuple[int, ...]


class DeviceProperties(Struct, frozen=True):
    """A GPU as PyTorch lists it (an item of ``deviceProperties``); 0: the file does not say.

    `id` is its ordinal, `multiprocessors` their number, `threads` the largest number of threads on one of them,
    `memory` the bytes of the device. `compute_major` is the major number of NVIDIA's compute capability, `warp_size` in
    threads. `recorded` is the item itself, as JSON, for exports.
    """

    id: int | None = None
    name: str = ""
    multiprocessors: int = 0
    threads: int = 0
    memory: int = 0
    compute_major: int = 0
    warp_size: int = 0
    recorded: str = "{}"


class PlaneStats(Struct, frozen=True):
    """Stats of one plane of an XLA profile about its device, under XLA's names; None: not recorded.

    Peak bandwidths are in GB/s, peak compute in 10^12 operations per second; `clock_rate` is in kHz, `memory_bandwidth`
    in bytes per second. `core_count` counts multiprocessors, or AMD's compute units.
    """

    peak_teraflops_per_second: float | None = None
    peak_hbm_bw_gigabytes_per_second: float | None = None
    peak_cmem_rd_bw_gigabytes_per_second: float | None = None
    peak_cmem_wr_bw_gigabytes_per_second: float | None = None
    peak_vmem_rd_bw_gigabytes_per_second: float | None = None
    peak_vmem_wr_bw_gigabytes_per_second: float | None = None
    core_count: float | None = None
    clock_rate: float | None = None
    memory_bandwidth: float | None = None
    compute_cap_major: int | None = None
    compute_cap_minor: int | None = None
    device_vendor: str = ""


class HloProgram(Struct, frozen=True):
    """A program whose HLO is in an XLA profile.

    `program` is its id; its HloProto has `size` bytes, from byte `offset` of the file. It runs as `replicas` times
    `partitions`, on all hosts together; 0: its HLO does not say. `damaged`: the HLO cannot be read to its end.
    """

    name: str
    program: int = 0
    offset: int = 0
    size: int = 0
    replicas: int = 0
    partitions: int = 0
    damaged: bool = False

    @property
    def devices(self) -> int:
        """The number of devices that it runs on; 0: unknown."""
        return self.replicas * self.partitions


class ExportedWindow(Struct, frozen=True):
    """The window that an exported file holds, in ps from time 0 of the file; None: no limit."""

    start: int | None = None
    end: int | None = None


class NoDeviceWork(Struct, frozen=True):
    """Hints about why a PyTorch file, or a damaged profile of XLA, has no device work.

    `runtime` is "launches" if the host launched device work, "calls" if it called a device's runtime without launching
    anything, else "". `family` is the runtime of the launches ("CUDA"); "" for unknown ones and for several.
    `allocates` has the types of devices whose memory was allocated ("GPU", "MPS"). `foreign` counts events that may be
    from another profiler, `unread` events with phases that PyTorch does not write. `severed`: the file, or the one that
    it was exported from, ends within its events.
    """

    runtime: Literal["launches", "calls", ""] = ""
    family: str = ""
    allocates: tuple[str, ...] = ()
    foreign: int = 0
    unread: int = 0
    severed: bool = False


class FileFacts(Struct, frozen=True):
    """All facts of a file. Unset: the file does not say.

    From any file: `versions` of drivers and libraries by the file's own names for them ("cuda_driver_version"), and the
    `exported_window` if the file is the export of a window. `unmatched_launches` counts the calls that launch device
    work and share their correlation id with no device event; None if ids repeat, so that the number is unknown.

    From PyTorch files: the recorded `rank`, `world_size` (ranks of the job) and `backend` ("nccl"), the process
    `groups` with their members, the name of the `machine`, the ids of the host `processes` with events (without the
    marks of merged files), the `devices` that the process sees. `span_ns` is the start
    (wall clock, or the file's own) and the length of the profiler's span, in ns. `modules`: calls of ``nn.Module`` were
    recorded. `host_only` has hints about why there is no device work; None if there is some. In a file merged from
    several ranks, `rank` and `machine` are unset: they would be true of one rank only.

    From XLA files: the stats of each of the `planes` that has some, by the name of the plane, and the `programs` whose
    HLO the file has.
    """

    versions: Mapping[str, str] = field(default_factory=dict)
    exported_window: ExportedWindow | None = None
    unmatched_launches: int | None = 0
    rank: int | None = None
    world_size: int | None = None
    backend: str | None = None
    groups: tuple[ProcessGroup, ...] = ()
    machine: str | None = None
    processes: tuple[str, ...] = ()
    devices: tuple[DeviceProperties, ...] = ()
    span_ns: tuple[int, int] | None = None
    modules: bool | None = None
    host_only: NoDeviceWork | None = None
    planes: Mapping[str, PlaneStats] = field(default_factory=dict)
    programs: tuple[HloProgram, ...] = ()
