"""Facts of a trace file: all that it says of its run beside its events, in one type for all formats.

A format fills in what its files have, and leaves the rest unset. Whole numbers beyond Int64 count as not recorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, field


class Claims(Struct, frozen=True):
    """The facts that stand at the ends of a file, known before it is read. Unset: they are not there.

    `rank` is that of the process, `world_size` the number of ranks of the job, `backend` that of torch.distributed
    ("nccl"). `devices` are labels such as "TPU:0", else the names of models; `host` is the name of the machine.
    """

    rank: int | None = None
    world_size: int | None = None
    backend: str | None = None
    devices: tuple[str, ...] = ()
    host: str | None = None


class ProcessGroup(Struct, frozen=True):
    """A process group of torch.distributed (an item of ``pg_config``), and the ranks that are its members."""

    name: str
    ranks: tuple[int, ...]


class DeviceProperties(Struct, frozen=True):
    """A GPU as PyTorch lists it (an item of ``deviceProperties``); 0: the file does not say.

    `id` is its ordinal, `multiprocessors` how many it has, `threads` how many one of them holds at once, `memory` the
    bytes of the device. `compute_major` is the first number of NVIDIA's compute capability, `warp_size` in threads.
    `recorded` is the item itself, as JSON: an export copies it.
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
    """The stats of one plane of an XLA profile that tell of its device, under XLA's names; None: not recorded.

    Peaks of bandwidth are in GB/s, of compute in 10^12 operations per second; `clock_rate` is in kHz, and
    `memory_bandwidth` in bytes per second. `core_count` counts multiprocessors, or AMD's compute units.
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
    """A program whose HLO an XLA profile has.

    `program` is its id; its HloProto has `size` bytes, from byte `offset` of the file. It runs as so many `replicas` of
    so many `partitions`, on all hosts together; 0: its HLO does not say. `damaged` is whether the HLO cannot be read to
    its end.
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
        """On how many devices it runs; 0: unknown."""
        return self.replicas * self.partitions


class ExportedWindow(Struct, frozen=True):
    """The window that a file is an export of: ps from the time 0 of its part; None: not limited there."""

    start: int | None = None
    end: int | None = None


class HostOnly(Struct, frozen=True):
    """The signs in a PyTorch file without device work of why it has none.

    `runtime` is "launches" where the host launched device work, "calls" where it called a device's runtime and launched
    nothing, else "". `family` is whose runtime launched ("CUDA"); "" for others, and for several. `allocates` is
    whether memory of a device was allocated. `foreign` counts events that may be another profiler's, `unread` those
    with phases that PyTorch does not write. `severed` is whether the file ends within its events, or was exported from
    one that does.
    """

    runtime: Literal["launches", "calls", ""] = ""
    family: str = ""
    allocates: bool = False
    foreign: int = 0
    unread: int = 0
    severed: bool = False


class FileFacts(Struct, frozen=True):
    """All facts of a file. Unset: the file does not say.

    From any file: `versions` of drivers and libraries by the file's own names for them ("cuda_driver_version"), and the
    `exported_window` of one that is the export of a window.

    From PyTorch's: the `rank` that the file claims, `world_size` (ranks of the job) and `backend` ("nccl"), the
    process `groups` and their members, the name of the `machine`, the `devices` that the process sees. `span_ns` is
    start (wall clock, or the file's own) and length of the profiler's span, in ns. `modules` is whether calls of
    ``nn.Module`` were recorded, and `host_only` tells why there is no device work; None where there is some. Where a
    file was merged of those of several ranks, `rank` and `machine` are unset: what it says of them is true of one.

    From XLA's: the stats of each of the `planes` that has some, by the name of the plane, and the `programs` whose HLO
    the file has.
    """

    versions: Mapping[str, str] = field(default_factory=dict)
    exported_window: ExportedWindow | None = None
    rank: int | None = None
    world_size: int | None = None
    backend: str | None = None
    groups: tuple[ProcessGroup, ...] = ()
    machine: str | None = None
    devices: tuple[DeviceProperties, ...] = ()
    span_ns: tuple[int, int] | None = None
    modules: bool | None = None
    host_only: HostOnly | None = None
    planes: Mapping[str, PlaneStats] = field(default_factory=dict)
    programs: tuple[HloProgram, ...] = ()
