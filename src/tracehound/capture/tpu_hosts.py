"""The hosts of the TPU slice that this machine is part of: from the environment, or from Google's metadata server.

The variables are those that JAX and libtpu read. A job of several slices is found slice by slice: each knows its own
hosts only.
"""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from tracehound.capture.server_address import ServerAddress, parse_address
from tracehound.errors import TracehoundError, printable

METADATA_SECONDS: Final = 3.0
"""Deadline of a question to the metadata server, which is on the same machine where there is one."""

_MAX_METADATA_BYTES: Final = 1 << 20

_NAME_HOSTS: Final = "name the hosts yourself: tracehound capture HOST:PORT,HOST:PORT"


class TpuSlice(Struct, frozen=True):
    """The hosts of one slice, the source of their names, and the number of slices of the job."""

    hosts: tuple[str, ...]
    source: str
    slices: int = 1

    def addresses(self, port: int) -> tuple[ServerAddress, ...]:
        """The profiler servers of all hosts, which listen on one port."""
        return tuple(dict.fromkeys(parse_address(_bracket_ipv6(host), port) for host in self.hosts))


def find_tpu_slice(environment: Mapping[str, str] = os.environ) -> TpuSlice:
    """The slice of this machine. Raises TracehoundError if it is part of none."""
    slices = environment.get("MEGASCALE_NUM_SLICES", "")
    several = int(slices) if slices.isascii() and slices.isdigit() and len(slices) < 9 else 1
    if hosts := _split_list(environment.get("TPU_WORKER_HOSTNAMES", "")):
        return TpuSlice(hosts, "TPU_WORKER_HOSTNAMES", several)
    if processes := _split_list(environment.get("TPU_PROCESS_ADDRESSES", "")):
        hosts = tuple(dict.fromkeys(process.rsplit(":", 1)[0] for process in processes))
        return TpuSlice(hosts, "TPU_PROCESS_ADDRESSES", several)
    if environment.get("TPU_SKIP_MDS_QUERY") is not None:
        what = "no TPU_WORKER_HOSTNAMES, and TPU_SKIP_MDS_QUERY forbids to ask the metadata server"
        raise TracehoundError(what, remedy=_NAME_HOSTS)
    endpoints = _read_metadata("worker-network-endpoints", environment)
    # Each is NAME:PORT:ADDRESS, of which only the address is real.
    hosts = tuple(endpoint.split(":", 2)[-1] for endpoint in _split_list(endpoints))
    if not hosts:
        raise TracehoundError("the metadata server names no hosts of a TPU slice", remedy=_NAME_HOSTS)
    return TpuSlice(hosts, "the metadata server", several)


def _split_list(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _bracket_ipv6(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def _read_metadata(name: str, environment: Mapping[str, str]) -> str:
    """An attribute of this machine from the metadata server of Google's cloud. Raises TracehoundError."""
    server = environment.get("GCE_METADATA_IP") or "metadata.google.internal"
    request = urllib.request.Request(
        f"http://{server}/computeMetadata/v1/instance/attributes/{name}", headers={"Metadata-Flavor": "Google"}
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # it is never behind a proxy
    try:
        with opener.open(request, timeout=METADATA_SECONDS) as reply:
            data: bytes = reply.read(_MAX_METADATA_BYTES)
    except urllib.error.HTTPError as error:
        what = f"the metadata server knows no TPU slice ({error.code} {printable(str(error.reason))})"
        raise TracehoundError(what, remedy=_NAME_HOSTS) from error
    except (OSError, ValueError) as error:
        what = "this machine is in no TPU slice: no TPU_WORKER_HOSTNAMES, and no metadata server answers"
        raise TracehoundError(what, remedy=_NAME_HOSTS) from error
    return data.decode("utf-8", "replace")
