"""Requests to a dynolog daemon, and daemons that fail in every way."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable

import pytest

from dynolog_daemon import DynologDaemon, frame, receive_frame, scripted_server
from tracehound.capture import dynolog
from tracehound.capture.dynolog import MatchedProcesses, ProcessFilter, match_processes, trigger_processes
from tracehound.capture.server_address import ServerAddress
from tracehound.errors import TracehoundError

ALL = ProcessFilter()
CONFIG = "ACTIVITIES_LOG_FILE=/tmp/x.json\nACTIVITIES_DURATION_MSECS=500"

Script = Callable[[socket.socket], None]


def reply(body: bytes) -> Script:
    def answer(connection: socket.socket) -> None:
        receive_frame(connection)
        connection.sendall(body)

    return answer


def close_at_once(connection: socket.socket) -> None:
    receive_frame(connection)


def error_of(*scripts: Script) -> str:
    with scripted_server(*scripts) as address, pytest.raises(TracehoundError) as caught:
        trigger_processes(address, ALL, CONFIG)
    text = str(caught.value)
    assert text.isprintable()
    return text.replace(str(address), "HOST:1778")


def test_all_processes_of_the_machine_are_triggered_once():
    with DynologDaemon() as daemon:
        daemon.poll([11, 1])
        daemon.poll([12, 1])
        assert trigger_processes(daemon.address, ALL, CONFIG) == MatchedProcesses((11, 12), (11, 12), 0)
        assert daemon.poll([11, 1]) == f"{CONFIG}\n"
        assert trigger_processes(daemon.address, ALL, CONFIG) == MatchedProcesses((11, 12), (11,), 1)
        with pytest.raises(TracehoundError, match="2 processes matched, 0 triggered, 2 busy with an earlier request"):
            trigger_processes(daemon.address, ALL, CONFIG)


def test_matching_triggers_none():
    with DynologDaemon() as daemon:
        daemon.poll([11, 1])
        assert match_processes(daemon.address, ALL, CONFIG) == MatchedProcesses((11,), (), 0)
        assert daemon.poll([11, 1]) == ""


def test_a_process_is_found_by_its_parent_and_by_its_job():
    with DynologDaemon() as daemon:
        daemon.poll([11, 10, 1])
        daemon.poll([12, 10, 1])
        daemon.poll([21, 20, 1], job=7)
        assert match_processes(daemon.address, ProcessFilter((12,)), CONFIG).matched == (12,)
        assert match_processes(daemon.address, ProcessFilter((10,)), CONFIG).matched == (11, 12)
        assert match_processes(daemon.address, ProcessFilter((), 7), CONFIG).matched == (21,)


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (ALL, "no process is registered with dynolog at"),
        (ProcessFilter((4711,)), "no process 4711 or child of it is registered with"),
        (ProcessFilter((), 7), "no process of job 7 is registered with"),
    ],
)
def test_an_unknown_process_is_explained(wanted: ProcessFilter, words: str):
    with DynologDaemon() as daemon, pytest.raises(TracehoundError) as caught:
        match_processes(daemon.address, wanted, CONFIG)
    assert words in str(caught.value)
    assert "KINETO_USE_DAEMON=1" in str(caught.value)
    assert "--enable_ipc_monitor" in str(caught.value)
    assert "--job-id" in str(caught.value)


def test_a_path_reaches_the_process_as_it_is():
    config = 'ACTIVITIES_LOG_FILE=/tmp/a "b" \\n\u00e4.json'
    with DynologDaemon() as daemon:
        daemon.poll([11])
        trigger_processes(daemon.address, ALL, config)
        assert daemon.poll([11]) == f"{config}\n"


def test_no_daemon_listens():
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = ServerAddress("127.0.0.1", server.getsockname()[1])
    with pytest.raises(TracehoundError, match=r"no dynolog daemon listens at .*; start one there"):
        match_processes(address, ALL, CONFIG)


def test_no_host_has_the_name():
    for host in ("no-such-host.invalid", "a..b", "x" * 300):
        with pytest.raises(TracehoundError, match="cannot reach a dynolog daemon at") as caught:
            match_processes(ServerAddress(host, 1778), ALL, CONFIG)
        assert str(caught.value).isprintable()


def test_a_daemon_refuses():
    assert error_of(reply(frame(b'{"status":"failed"}'))) == "dynolog at HOST:1778 refused the request: failed"


def test_an_error_of_the_daemon_is_cut_and_printable():
    text = error_of(reply(frame(json.dumps({"status": "failed with exception = \x1b[31m" + "x" * 9999}).encode())))
    assert text.startswith("dynolog at HOST:1778 refused the request: failed with exception = \u241b[31mxxx")
    assert len(text) < 300


def test_a_daemon_of_another_version_does_not_know_the_request():
    text = error_of(close_at_once, reply(frame(b'{"version":"0.0.1\\u001b[2J"}')))
    assert text == "dynolog 0.0.1\u241b[2J at HOST:1778 does not know on-demand traces; update the daemon"


def test_a_server_closes_without_a_reply():
    text = "HOST:1778 closed the connection without a reply; is it a dynolog daemon?"
    assert error_of(close_at_once, close_at_once) == text
    assert error_of(close_at_once, reply(b"HTTP/1.1 400 Bad Request\r\n\r\n")) == text


@pytest.mark.parametrize("body", [frame(b'{"processesMatched":[1]}')[:-3], frame(b"{}")[:5]])
def test_a_daemon_closes_in_the_middle_of_its_reply(body: bytes):
    assert error_of(reply(body)) == "HOST:1778 closed the connection in the middle of its reply; try again"


@pytest.mark.parametrize(
    "body",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\x15\x03\x03\x00\x02\x02\x32",  # an alert of TLS
        b"\x05\0",
        b"\xff\xff\xff\xff{}",
        b"\0\0\0\0",
        frame(b"not json \x1b[2J"),
        frame(b'{"status":"\xff"}'),
        frame(b"[]"),
        frame(b"{}"),
        frame(b"null"),
        frame(b'{"processesMatched":null}'),
        frame(b'{"processesMatched":7}'),
        frame(b'{"processesMatched":["\\u001b[2J"]}'),
        frame(b'{"processesMatched":[-1],"activityProfilersTriggered":[-1]}'),
        frame(b'{"processesMatched":[99999999999],"activityProfilersTriggered":[99999999999]}'),
        frame(b'{"processesMatched":[1],"activityProfilersBusy":-1}'),
        frame(b"[" * 100_000),
        frame(b'{"x":' + b"[" * 100_000),
    ],
)
def test_another_server_answers(body: bytes):
    text = "HOST:1778 does not answer like a dynolog daemon; check the host and the port"
    assert error_of(reply(body)) == text


def test_a_silent_daemon_is_given_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(dynolog, "REPLY_SECONDS", 0.2)
    given_up = threading.Event()
    with scripted_server(lambda _: given_up.wait(10) and None) as address:
        with pytest.raises(TracehoundError, match="does not answer within 0 s; check the host, the port and firewalls"):
            match_processes(address, ALL, CONFIG)
        given_up.set()


def test_a_daemon_that_sends_a_byte_now_and_then_is_given_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(dynolog, "REPLY_SECONDS", 0.5)
    given_up = threading.Event()

    def drip(connection: socket.socket) -> None:
        receive_frame(connection)
        connection.sendall(frame(b" " * 1000)[:4])
        while not given_up.wait(0.1):
            connection.sendall(b" ")

    with scripted_server(drip) as address:
        with pytest.raises(TracehoundError, match="does not answer within"):
            match_processes(address, ALL, CONFIG)
        given_up.set()
