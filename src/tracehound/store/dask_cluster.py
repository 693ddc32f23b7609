"""A Dask cluster whose workers read traces. The only module that knows Dask."""

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, CancelledError, Future
from contextlib import suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

import msgspec

from tracehound.errors import TracehoundError, printable
from tracehound.system.cluster_executor import ClusterExecutor

if TYPE_CHECKING:
    from distributed import Client

P = ParamSpec("P")
T = TypeVar("T")

CONNECT_SECONDS: Final = 10
"""Seconds to wait for the scheduler."""

_GRACE_SECONDS: Final = 5
"""Seconds after which a connection that should have ended is given up."""

WORKER_SECONDS: Final = 60
"""Seconds to wait for the first worker of a cluster that has none: a batch system may still start it."""


_SCHEDULER_GONE: Final = "the scheduler is gone, or canceled the work"


def versions_here() -> dict[str, str]:
    """The versions of the packages whose objects travel between this process and the workers."""
    return {package: version(package) for package in ("tracehound", "polars")}


class DaskCluster(ClusterExecutor):
    """The workers of a Dask scheduler. A call whose worker is lost is done again by another one."""

    def __init__(self, client: Client, address: str) -> None:
        super().__init__(client.get_executor(pure=False), sum(client.nthreads().values()), f"Dask cluster {address}")
        self._client = client
        from distributed.scheduler import KilledWorker  # noqa: PLC0415, it takes half a second

        self._killed_worker = KilledWorker

    def submit_near(self, worker: str, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Let a worker call the function: the one at this address, unless it is gone or busy."""
        if not worker:
            return self.submit(fn, *args, **kwargs)
        near = self._client.get_executor(pure=False, workers=[worker], allow_other_workers=True)
        future: Future[T] = near.submit(fn, *args, **kwargs)
        return future

    def result(self, future: Future[T]) -> T:
        """The result of a call. Raises its error, and BrokenExecutor if workers were killed, or the scheduler."""
        try:
            return future.result()
        except self._killed_worker as error:
            raise BrokenExecutor(f"{error.allowed_failures + 1} workers were killed by the same work") from None
        except CancelledError:
            raise BrokenExecutor(_SCHEDULER_GONE) from None

    def check_alive(self) -> None:
        """Raise BrokenExecutor if the scheduler is gone: calls that wait for it would wait for long."""
        if self._client.status != "running":
            raise BrokenExecutor(_SCHEDULER_GONE)

    def cancel(self, future: Future[Any]) -> None:
        """Cancel a call, unless the scheduler is gone."""
        if self._client.status == "running":
            future.cancel()

    def close(self) -> None:
        """Leave the cluster; what it still does for this process is dropped."""
        with suppress(Exception):
            self._client.close(timeout=2)


def connect_cluster(address: str) -> DaskCluster:
    """The cluster at the address of its scheduler (``tcp://HOST:8786``), or of its scheduler file.

    Raises TracehoundError if it cannot be reached, or its workers have other versions.
    """
    try:
        from distributed import Client  # noqa: PLC0415, by who has a cluster
    except ImportError as error:
        raise TracehoundError("--cluster needs Dask", remedy="pip install 'tracehound[dask]'") from error
    for name in list(logging.root.manager.loggerDict):
        if name.startswith(("distributed", "tornado", "asyncio")):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)  # each of its complaints is one of ours
    warnings.filterwarnings("ignore", module="distributed")
    where = address if "://" in address else _address_in_file(Path(address))
    connect = partial(Client, where, timeout=CONNECT_SECONDS, set_as_default=False, name="tracehound")
    try:
        client = _call_in_time(connect, CONNECT_SECONDS + _GRACE_SECONDS)
    except Exception as error:  # whatever Dask raises for an address
        remedy = "is the scheduler running, and does this machine reach it?"
        raise TracehoundError(f"no Dask scheduler answers at {printable(where)}", remedy=remedy) from error
    try:
        _require_workers(client, address)
        return DaskCluster(client, printable(address))
    except BaseException:
        with suppress(Exception):
            client.close(timeout=2)
        raise


def _call_in_time(call: Callable[[], T], seconds: float) -> T:
    """The result of a call. Raises TimeoutError if there is none in time: a server may accept and never answer."""
    future = Future[T]()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001, it is raised where the result is asked for
            future.set_exception(error)

    threading.Thread(target=run, name="tracehound connect", daemon=True).start()
    return future.result(timeout=seconds)


def _address_in_file(path: Path) -> str:
    """The address in a scheduler file. Raises TracehoundError if it is none."""
    remedy = "--cluster takes tcp://HOST:8786, or the file that a scheduler writes with --scheduler-file"
    if not path.is_file():
        raise TracehoundError(f"no scheduler file {printable(str(path))}", remedy=remedy)
    try:
        return str(msgspec.json.decode(path.read_bytes(), type=_SchedulerFile).address)
    except (OSError, msgspec.MsgspecError) as error:
        raise TracehoundError("is no scheduler file", path, remedy=remedy) from error


class _SchedulerFile(msgspec.Struct):
    """The needed part of a scheduler file."""

    address: str


def _require_workers(client: Client, address: str) -> None:
    """Wait for a worker, and compare the versions of all. Raises TracehoundError."""
    try:
        client.wait_for_workers(1, timeout=WORKER_SECONDS)
    except TimeoutError as error:
        why = f"the Dask cluster {printable(address)} has no workers after {WORKER_SECONDS} s"
        raise TracehoundError(why, remedy="start some: dask worker SCHEDULER") from error
    for package, here in versions_here().items():
        for worker, there in client.run(version, package, on_error="return").items():
            if there != here:
                raise _other_version_error(worker, package, here, there)


def _other_version_error(worker: str, package: str, here: str, there: Any) -> TracehoundError:  # noqa: ANN401
    """The error of a worker that has another version of a package, or whose call failed."""
    if isinstance(there, PackageNotFoundError):
        why, remedy = f"{package} is not installed there", f"pip install {package}=={here} on all workers"
    elif isinstance(there, BaseException):
        why, remedy = f"it does not answer: {there}", "look at its log"
    else:
        why, remedy = f"it has {package} {there}, this machine {here}", "install the same version on all workers"
    return TracehoundError(f"worker {printable(worker)}: {printable(why)}", remedy=remedy)
