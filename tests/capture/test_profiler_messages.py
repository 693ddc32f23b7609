"""Requests and replies of profiler servers at the wire."""

from __future__ import annotations

import pytest

import profiler_servers as servers
from tracehound.capture.profiler_messages import (
    ProfileRequest,
    TraceOption,
    TracerOptions,
    encode_profile_request,
    encode_terminate_request,
    parse_profile_reply,
    parse_trace_option,
)
from tracehound.capture.xspace_contents import XSpaceContents, inspect_xspace
from tracehound.errors import TracehoundError
from tracehound.formats.protobuf_wire import WireError
from xspaces import Event, Line, Plane, Stat, block, space, whole


def test_fields_that_are_not_given_are_left_out() -> None:
    fields = servers.request_fields(encode_profile_request(ProfileRequest()))
    assert set(fields) == {4, 9}
    assert encode_terminate_request("") == b""


def test_levels_of_zero_are_the_defaults_of_the_message() -> None:
    encoded = encode_profile_request(ProfileRequest(tracers=TracerOptions(0, 0, 0)))
    options = servers.request_fields(encoded)[4]
    assert isinstance(options, bytes)
    assert set(servers.request_fields(options)) == {1, 5, 7}


@pytest.mark.parametrize("number", [1, 127, 128, 300, 2**31, 2**63 - 1])
def test_numbers_of_every_size(number: int) -> None:
    options = servers.request_fields(encode_profile_request(ProfileRequest(start_ns=number)))[4]
    assert isinstance(options, bytes)
    assert servers.request_fields(options)[8] == number


def test_a_reply_gives_its_profile_without_a_copy() -> None:
    profile = servers.xspace()
    reply = parse_profile_reply(whole(99, 7) + servers.reply(profile) + block(6, b"tool"))
    assert reply.has_xspace
    assert not reply.empty
    assert bytes(reply.xspace) == profile
    assert reply.xspace.obj is reply.data


def test_a_reply_without_a_profile() -> None:
    assert not parse_profile_reply(b"").has_xspace
    assert parse_profile_reply(servers.EMPTY).empty
    with pytest.raises(WireError):
        parse_profile_reply(servers.reply(servers.xspace())[:-1])


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("tpu_trace_mode=TRACE_ONLY_HOST", "TRACE_ONLY_HOST"),
        ("a=true", True),
        ("a=false", False),
        ("a=-12", -12),
        ("a=1.5", "1.5"),
        ("a=x=y", "x=y"),
        ("a=99999999999999999999", "99999999999999999999"),
    ],
)
def test_options_of_tracers(word: str, value: TraceOption) -> None:
    name, parsed = parse_trace_option(word)
    assert (name, parsed, type(parsed)) == (word.partition("=")[0], value, type(value))


@pytest.mark.parametrize("word", ["", "a", "a=", "=b"])
def test_what_is_no_option(word: str) -> None:
    with pytest.raises(TracehoundError, match="is no option of a tracer"):
        parse_trace_option(word)


def inspect(data: bytes) -> XSpaceContents:
    return inspect_xspace(data, 0, len(data))


def test_the_contents_of_a_profile() -> None:
    event = [Line("XLA Ops", [Event("fusion", 0, 5)])]
    profile = space(
        Plane("/host:CPU", [Line("python", [])]),
        Plane("/device:TPU:0", event),
        Plane("/device:TPU:1"),
        Plane("/device:TPU:1 SparseCore 0", event),
        Plane("/host:metadata", stats=[Stat("process_id", 3, 4711)]),
        Plane(
            "Task Environment",
            stats=[Stat("profile_start_time", 3, 5 * 10**18), Stat("profile_stop_time", 4, 5 * 10**18 + 2 * 10**9)],
        ),
    )
    found = inspect(profile + block(2, "dropped 12 events"))
    assert found == XSpaceContents(
        has_events=True,
        active_devices=1,
        idle_devices=1,
        errors=("dropped 12 events",),
        start_ns=5 * 10**18,
        stop_ns=5 * 10**18 + 2 * 10**9,
        process_id=4711,
    )
    assert found.seconds == 2


def test_a_profile_without_events_or_times() -> None:
    assert inspect(b"") == XSpaceContents(has_events=False)
    assert inspect(servers.xspace(events=False)).seconds == 2
    assert inspect(space(Plane("/host:CPU", [Line("python", [])]))).seconds == 0
    with pytest.raises(WireError):
        inspect(b"\x0a\x05\x12")
