"""The process behind a port, and its memory."""

from __future__ import annotations

import os
import socket
import sys

import pytest

from tracehound.system.process_memory import listening_process, resident_bytes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc is of Linux")


@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_a_port_leads_to_its_process(family: socket.AddressFamily, host: str) -> None:
    try:
        server = socket.create_server((host, 0), family=family)
    except OSError:
        pytest.skip("this machine has no such addresses")
    with server:
        assert listening_process(server.getsockname()[1]) == os.getpid()


def test_a_port_without_a_process() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        assert listening_process(taken.getsockname()[1]) is None


def test_memory_of_a_process() -> None:
    found = resident_bytes(os.getpid())
    assert found is not None
    assert found > 1 << 20
    assert resident_bytes(2**22 + 1) is None
