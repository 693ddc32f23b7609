from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growth import TOO_FAST, growth
from hloprotos import group_list, numbers
from tracehound.formats.hlo.proto_message import read_message
from tracehound.formats.hlo.replica_groups import (
    DeviceGroups,
    find_groups_text,
    format_groups,
    groups_text_and_size,
    iota_groups,
    mesh_groups,
    parse_groups,
    read_groups,
)
from tracehound.formats.protobuf_wire import pad_bytes
from xspaces import block, whole


def told(raw: bytes) -> tuple[DeviceGroups | None, str]:
    file = pad_bytes(raw)
    return read_groups(read_message(file, 0, file.size))


def mesh(sizes: dict[str, int], *along: bytes, devices: tuple[int, ...] = ()) -> bytes:
    axes = b"".join(block(1, block(1, name) + whole(2, size)) for name, size in sizes.items())
    return block(93, block(1, axes + numbers(2, *devices)) + b"".join(block(2, one) for one in along))


def test_groups_in_every_form_of_a_proto() -> None:
    assert told(group_list((0, 1), (2, 3))) == (((0, 1), (2, 3)), "{{0,1},{2,3}}")
    assert told(block(49, numbers(1, 0, 1))) == (((0, 1),), "{{0,1}}")
    short = whole(1, 4) + whole(2, 2) + numbers(3, 2, 4) + numbers(4, 1, 0)
    turned = (((0, 4), (1, 5), (2, 6), (3, 7)), "[4,2]<=[2,4]T(1,0)")
    assert told(block(92, short)) == turned
    assert told(block(87, block(2, short))) == turned
    assert told(block(87, b"")) == ((), "{}")
    assert told(whole(26, 1)) == ((), "")


def test_groups_along_the_axes_of_a_mesh() -> None:
    sizes = {"data": 4, "model": 2}
    assert told(mesh(sizes, whole(1, 1))) == (((0, 1), (2, 3), (4, 5), (6, 7)), "mesh['data'=4,'model'=2] {'model'}")
    split = block(2, whole(1, 2) + whole(2, 2))
    form = "mesh['data'=4,'model'=2] {'data':(2)2}"
    assert told(mesh(sizes, split)) == (((0, 2), (1, 3), (4, 6), (5, 7)), form)
    form = "mesh['x'=2,'y'=2], device_ids=(0,2,1,3) {'y'}"
    assert told(mesh({"x": 2, "y": 2}, whole(1, 1), devices=(0, 2, 1, 3))) == (((0, 2), (1, 3)), form)


@given(st.lists(st.sampled_from([1, 2, 3, 4]), min_size=1, max_size=4), st.data())
def test_groups_along_axes_are_those_of_a_slow_way(sizes: list[int], data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.sampled_from(range(len(sizes))), unique=True, min_size=1))
    order = data.draw(st.none() | st.permutations(range(len(list(product(*map(range, sizes)))))))
    met: dict[tuple[int, ...], list[tuple[tuple[int, ...], int]]] = {}
    for number, place in enumerate(product(*map(range, sizes))):
        rest = tuple(at for axis, at in enumerate(place) if axis not in chosen)
        met.setdefault(rest, []).append((tuple(place[axis] for axis in chosen), number))
    devices = tuple(order or ())
    slow = tuple(tuple(devices[at] if devices else at for _, at in sorted(group)) for group in met.values())
    assert mesh_groups(sizes, [(axis, 1, sizes[axis]) for axis in chosen], devices) == slow
    named = {f"axis {axis}": size for axis, size in enumerate(sizes)}
    found, form = told(mesh(named, *(whole(1, axis) for axis in chosen), devices=devices))
    assert found == slow
    assert parse_groups(f"all-reduce(%x), replica_groups={form}, to_apply=%add") == slow


@pytest.mark.parametrize(("opcode", "text", "replicas", "partitions", "expected"), [
    ("all-reduce", "replica_groups={{0,1}}", 2, 4, ("replica_groups={{0,4},{1,5},{2,6},{3,7}}", 2)),
    ("all-reduce", "replica_groups={}", 2, 4, ("replica_groups={{0,4},{1,5},{2,6},{3,7}}", 2)),
    ("all-reduce", "channel_id=1, replica_groups={{0,1}}", 1, 8, ("replica_groups={{0,1}}", None)),
    ("all-gather", "channel_id=1, replica_groups={{0},{1}}", 2, 2, ("replica_groups={{0,1},{2,3}}", 2)),
    ("all-gather", "channel_id=1, replica_groups={{0}}", 1, 8, ("replica_groups={{0,1,2,3,4,5,6,7}}", 8)),
    ("all-gather", "channel_id=1, replica_groups={{0}}", 0, 0, ("replica_groups={{0}}", None)),
    ("all-gather", "channel_id=1, replica_groups={}", 1, 8, ("replica_groups={}", 8)),
    ("all-to-all", "channel_id=1, replica_groups={{0,1}}", 2, 2, ("replica_groups={{0,1},{2,3}}", 2)),
    (
        "all-reduce", "channel_id=1, replica_groups=[2,2]<=[4], use_global_device_ids=true", 2, 2,
        ("replica_groups=[2,2]<=[4]", 2),
    ),
    ("all-reduce", "replica_groups={{0,1},{2,3}}", 4, 1, ("replica_groups={{0,1},{2,3}}", 2)),
    ("all-reduce", "replica_groups={{0,1},{2,3}}", 0, 0, ("replica_groups={{0,1},{2,3}}", 2)),
    ("all-reduce", "replica_groups=[3,2]<=[8]", 8, 1, ("replica_groups=[3,2]<=[8]", None)),
    ("all-reduce", "replica_groups={}", 1 << 40, 1 << 40, ("replica_groups={}", None)),
    ("all-reduce", "to_apply=%add", 2, 4, ("", None)),
])  # fmt: skip
def test_what_numbers_of_groups_stand_for(
    opcode: str, text: str, replicas: int, partitions: int, expected: tuple[str, int | None]
) -> None:
    assert groups_text_and_size(opcode, f"%a = f32[2] {opcode}(%x), {text}", replicas, partitions) == expected


def test_groups_that_do_not_fit_are_not_known() -> None:
    assert iota_groups((4, 2), (2, 4), (1, 0)) == ((0, 4), (1, 5), (2, 6), (3, 7))
    assert iota_groups((4, 2), (8,)) == ((0, 1), (2, 3), (4, 5), (6, 7))
    for wrong in (
        ((3, 2), (8,), (0,)),
        ((4, 2), (2, 4), (1, 1)),
        ((1 << 40, 1), (1 << 40,), (0,)),
        ((-4, -2), (8,), (0,)),
    ):
        assert iota_groups(*wrong) is None
    assert mesh_groups([4, 2], [(2, 1, 2)], ()) is None
    assert mesh_groups([4, 2], [(0, 3, 2)], ()) is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("replica_groups={{0,1},{2,3}}", ((0, 1), (2, 3))),
        ("replica_groups=[4,2]<=[2,4]T(1,0)", ((0, 4), (1, 5), (2, 6), (3, 7))),
        ("replica_groups=[2,4]<=[8]", ((0, 1, 2, 3), (4, 5, 6, 7))),
        ("replica_groups=mesh['data'=4,'model'=2] {'model'}", ((0, 1), (2, 3), (4, 5), (6, 7))),
        ("replica_groups=mesh[data=2,model=2] {data}", ((0, 2), (1, 3))),
        ("replica_groups=mesh['a'=8]{'a':(2)2}", ((0, 2), (1, 3), (4, 6), (5, 7))),
        ("replica_groups=mesh['a'=2,'b'=2], device_ids=([2,2]T(1,0)) {'a'}", ((0, 1), (2, 3))),
        ("replica_groups=mesh['a'=2,'b'=2], device_ids=(3,1,2,0) {'b'}", ((3, 1), (2, 0))),
        ("replica_groups={}", ()),
        ("replica_groups=[3,2]<=[8]", ()),
        ("replica_groups=[99999,99999]<=[99999,99999]", ()),
        ("replica_groups=[2,4]<=[8]T(7)", ()),
        ("replica_groups=mesh['a'=4] {'b'}", ()),
        ("replica_groups=mesh['a'=99999,'b'=99999] {'b'}", ()),
    ],
)
def test_spellings_of_replica_groups(text: str, found: DeviceGroups) -> None:
    assert find_groups_text(f"%a = f32[2] all-reduce(%x), {text}, channel_id=1") == text
    assert parse_groups(f"%a = f32[2] all-reduce(%x), {text}, channel_id=1") == found
    assert not found or parse_groups(f"replica_groups={format_groups(found)}") == found


def test_a_line_without_groups_names_none() -> None:
    assert find_groups_text("%a = f32[2] all-reduce(%x), channel_id=1") == ""
    assert parse_groups("%a = f32[2] all-reduce(%x), channel_id=1") == ()


def test_a_mesh_of_one_long_word_takes_as_long_as_it_is() -> None:
    assert growth(lambda size: parse_groups(f"replica_groups=mesh[{'a' * size}] {{'a'}}")) < TOO_FAST
