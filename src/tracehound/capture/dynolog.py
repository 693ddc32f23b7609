"""Requests to a dynolog daemon, which triggers on-demand traces of the PyTorch processes of its machine.

The daemon names the processes that match and keeps the request for them. Kineto, inside each process, fetches it at its
next poll, records, and writes a file (`kineto_files`). The daemon does not say when, or whether, that has happened.

On the wire, each request has a TCP connection of its own. Request and reply are a length (int32, little-endian) and
that many bytes of JSON. A daemon closes the connection without a reply if it does not know the request.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Mapping
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from tracehound.capture.server_address import ServerAddress
from tracehound.errors import TracehoundError, printable
from tracehound.model.units import count_noun

DEFAULT_PORT: Final = 1778

REPLY_SECONDS: Final = 10.0
"""The longest that connecting and the reply may take together; a daemon answers within milliseconds."""

MAX_REPLY_BYTES: Final = 1 << 16
"""A longer reply is none of dynolog's, which have two numbers for each process; TLS and HTTP look longer."""

MAX_PROCESSES: Final = 1000
"""The largest number of processes that one request triggers; the daemon's own default."""

MAX_ERROR_CHARS: Final = 200
"""Characters of a daemon's own error that are shown."""

_LENGTH: Final = struct.Struct("<i")
_START_DAEMON: Final = "start one there: dynolog --enable_ipc_monitor"


class ProcessFilter(Struct, frozen=True):
    """The processes to trace: those of a job that are, or descend from, one of `pids`; without pids, all of the job.

    The job is the one that the processes know as ``SLURM_JOB_ID``, 0 for processes that have none.
    """

    pids: tuple[int, ...] = ()
    job_id: int = 0


class MatchedProcesses(Struct, frozen=True):
    """The answer of a daemon: ids of the processes that match and of those triggered, and how many are busy.

    A busy process has not yet fetched an earlier request.
    """

    matched: tuple[int, ...] = ()
    triggered: tuple[int, ...] = ()
    busy: int = 0

    def __str__(self) -> str:
        busy = f", {self.busy:,} busy with an earlier request" if self.busy else ""
        return (
            f"{count_noun(len(self.matched), 'process', 'processes')} matched, {len(self.triggered):,} triggered{busy}"
        )


def match_processes(address: ServerAddress, wanted: ProcessFilter, config: str) -> MatchedProcesses:
    """The processes that a request would reach; none of them is triggered. Raises TracehoundError if there are none."""
    found = _request_trace(address, wanted, config, limit=0)
    if not found.matched:
        raise TracehoundError(
            f"no process {_filter_words(wanted)}is registered with dynolog at {address}",
            remedy=_no_match_remedy(wanted),
        )
    return found


def trigger_processes(address: ServerAddress, wanted: ProcessFilter, config: str) -> MatchedProcesses:
    """Let the processes record a trace by Kineto's configuration. Raises TracehoundError if none was triggered."""
    found = _request_trace(address, wanted, config, limit=MAX_PROCESSES)
    if not found.triggered:
        remedy = "try again in 10 s; a process that is already being profiled takes no other request until it is done"
        raise TracehoundError(f"dynolog at {address}: {found}", remedy=remedy)
    return found


def _filter_words(wanted: ProcessFilter) -> str:
    """The conditions in words, each followed by a blank: ``with the id 7, or a child of it, of job 4 ``."""
    ids = " or ".join(map(str, wanted.pids))
    process = f"{ids} or child of it " if wanted.pids else ""
    return f"{process}of job {wanted.job_id} " if wanted.job_id else process


def _no_match_remedy(wanted: ProcessFilter) -> str:
    job = (
        "the job has this SLURM_JOB_ID (--job-id 0 for processes without one)"
        if wanted.job_id
        else "a job under SLURM needs --job-id"
    )
    return f"the job needs KINETO_USE_DAEMON=1 at its start, the daemon --enable_ipc_monitor; {job}"


MAX_PID: Final = 2**31 - 1

_ProcessIds = tuple[Annotated[int, Meta(gt=0, le=MAX_PID)], ...]


class _TraceReply(Struct, rename="camel"):
    """The reply to a request for traces. With an error, it has `status` alone."""

    status: str = ""
    processes_matched: _ProcessIds | None = None
    activity_profilers_triggered: _ProcessIds = ()
    activity_profilers_busy: Annotated[int, Meta(ge=0)] = 0


class _VersionReply(Struct):
    version: str


def _request_trace(address: ServerAddress, wanted: ProcessFilter, config: str, *, limit: int) -> MatchedProcesses:
    """The answer to a request that triggers at most `limit` processes."""
    request = {
        "fn": "setKinetOnDemandRequest",
        "config": config,
        "job_id": wanted.job_id,
        "pids": list(wanted.pids),
        "process_limit": limit,
    }
    data = _exchange(address, request)
    if not data:
        raise _unknown_request_error(address)
    try:
        reply = msgspec.json.decode(data, type=_TraceReply)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _foreign_reply_error(address) from error
    if reply.processes_matched is None:
        if not reply.status:
            raise _foreign_reply_error(address)
        raise TracehoundError(f"dynolog at {address} refused the request: {printable(reply.status)[:MAX_ERROR_CHARS]}")
    return MatchedProcesses(reply.processes_matched, reply.activity_profilers_triggered, reply.activity_profilers_busy)


def _unknown_request_error(address: ServerAddress) -> TracehoundError:
    """The error of a server that closed the connection without a reply: another version of dynolog, or no dynolog."""
    try:
        version = msgspec.json.decode(_exchange(address, {"fn": "getVersion"}), type=_VersionReply).version
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, TracehoundError):
        return TracehoundError(f"{address} closed the connection without a reply", remedy="is it a dynolog daemon?")
    message = f"dynolog {printable(version)[:40]} at {address} does not know on-demand traces"
    return TracehoundError(message, remedy="update the daemon")


def _foreign_reply_error(address: ServerAddress) -> TracehoundError:
    return TracehoundError(f"{address} does not answer like a dynolog daemon", remedy="check the host and the port")


def _exchange(address: ServerAddress, request: Mapping[str, object]) -> bytes:
    """The reply to a request; empty if the daemon closed the connection without one.

    Raises TracehoundError if no daemon can be reached, or if it breaks off.
    """
    body = msgspec.json.encode(request)
    deadline = time.monotonic() + REPLY_SECONDS
    try:
        with socket.create_connection((address.host, address.port), REPLY_SECONDS) as connection:
            connection.sendall(_LENGTH.pack(len(body)) + body)
            head = _receive(connection, _LENGTH.size, deadline)
            if not head:
                return b""
            size = _LENGTH.unpack(head)[0] if len(head) == _LENGTH.size else 0
            if not 0 < size <= MAX_REPLY_BYTES:
                raise _foreign_reply_error(address)
            data = _receive(connection, size, deadline)
    except TimeoutError as error:
        raise _silent_server_error(address) from error
    except ConnectionRefusedError as error:
        raise TracehoundError(f"no dynolog daemon listens at {address}", remedy=_START_DAEMON) from error
    except (ConnectionResetError, BrokenPipeError):
        return b""
    except (OSError, UnicodeError) as error:  # no such host, no route to it, no name that a host can have
        why = (getattr(error, "strerror", None) or str(error)).lower()
        raise TracehoundError(f"cannot reach a dynolog daemon at {address}: {printable(why)}") from error
    if len(data) < size:
        raise TracehoundError(f"{address} closed the connection in the middle of its reply", remedy="try again")
    return data


def _receive(connection: socket.socket, size: int, deadline: float) -> bytes:
    """The next `size` bytes, fewer if the peer ends first. Raises TimeoutError at the deadline."""
    data = bytearray()
    while len(data) < size:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        connection.settimeout(left)
        received = connection.recv(min(size - len(data), 1 << 16))
        if not received:
            break
        data += received
    return bytes(data)


def _silent_server_error(address: ServerAddress) -> TracehoundError:
    remedy = "check the host, the port and firewalls; a daemon serves one client after the other, so try again"
    return TracehoundError(f"{address} does not answer within {REPLY_SECONDS:.0f} s", remedy=remedy)
