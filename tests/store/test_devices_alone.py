"""What devices did, read without what hosts did: the answers that need no more stay the same."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from polars.testing import assert_frame_equal

from short import some
from tracehound.analysis import ANALYSES, Analysis, Options, Result, run_analysis
from tracehound.cli.main import main
from tracehound.formats import XPLANE
from tracehound.model.trace import Trace
from tracehound.store import ReadContext, ingest, load_trace, make_read_context, open_trace_files, trace_reader
from tracehound.store.trace_cache import open_cache
from xspaces import Event, Line, Plane, Stat, space

US = 1_000_000
"""Picoseconds in a microsecond."""

OPS = {
    "%copy-start.1 = copy-start(%p)": ("copy-start", 0, 5),
    "%fusion.1 = f32[8]{0} fusion(%p), kind=kLoop": ("loop fusion", 5, 60),
    "%all-reduce.1 = f32[8]{0} all-reduce(%p)": ("all-reduce", 65, 20),
    "%copy-done.1 = copy-done(%c)": ("copy-done", 85, 5),
}


def core(number: int) -> Plane:
    runs = range(3)
    return Plane(
        f"/device:TPU:{number}",
        [
            Line("XLA Modules", [Event("jit_f(5)", n * 200 * US, 90 * US) for n in runs], id=1),
            Line(
                "XLA Ops",
                [
                    Event(name, (n * 200 + at + number) * US, size * US)
                    for n in runs
                    for name, (_, at, size) in OPS.items()
                ],
                id=2,
            ),
            Line("Async XLA Ops", [Event("%copy-start.1 = copy-start(%p)", n * 200 * US, 90 * US) for n in runs], id=3),
        ],
        stats=[Stat("device_type_string", 5, "TPU v6 Lite")],
        metadata_stats={name: [Stat("hlo_category", 5, category)] for name, (category, _, _) in OPS.items()},
        displayed={name: name[1:].split()[0] for name in OPS},
    )


HOST = Plane("/host:CPU", [Line("main/1", [Event("prepare", n * 50 * US, 40 * US) for n in range(30)])])


def written(folder: Path, *planes: Plane, name: str = "host0.xplane.pb") -> Path:
    path = folder / name
    path.write_bytes(space(*planes))
    return path


WAYS = ("shared by workers", "a file each", "here, on disk")


@pytest.fixture(params=some(WAYS, ["here, on disk"]))
def shop(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ReadContext]:
    """Each way in which a large file is read."""
    monkeypatch.setattr(trace_reader, "MAX_IN_MEMORY_BYTES", 0)
    monkeypatch.setattr(ingest, "MIN_SHARED_BYTES", 0 if request.param == "shared by workers" else 1 << 40)
    with make_read_context(
        1 if request.param == "here, on disk" else 2, partial(open_cache, tmp_path / "kept")
    ) as made:
        yield made


def read(path: Path, shop: ReadContext | None = None, *, devices: bool = True) -> Trace:
    asked = open_trace_files([path], None, shop)
    asked.devices_only = devices
    return load_trace(asked)


def on_hosts(trace: Trace) -> int:
    return int(trace.lanes.filter(trace.lanes["rank"].is_null())["events"].sum())


def same(one: Result, other: Result) -> None:
    """All that is shown; events go by other ids."""
    shown = [column.name for column in one.columns if column.unit != "id"]
    assert_frame_equal(one.table.select(shown), other.table.select(shown))
    assert (one.notes, one.total) == (other.notes, other.total)


def every_way(analysis: Analysis) -> list[Options]:
    """Everything that can be chosen of an analysis, a choice at a time."""
    chosen = [(setting.name, choice) for setting in analysis.settings for choice in setting.choices]
    return [Options(), *(Options(given=(one,)) for one in chosen)]


def answers_agree(path: Path, shop: ReadContext, *, every_choice: bool = True) -> None:
    every, devices = read(path), read(path, shop)
    assert on_hosts(every)
    assert not on_hosts(devices)
    of_devices = [analysis for analysis in ANALYSES if analysis.device_ops_only]
    asked = [(one, options) for one in of_devices for options in (every_way(one) if every_choice else [Options()])]
    assert asked
    for analysis, options in asked:
        same(*(run_analysis(analysis, trace, None, options) for trace in (every, devices)))


@pytest.mark.parametrize("every_choice", some((False, True), (False,)))
def test_answers_need_no_hosts(tmp_path: Path, shop: ReadContext, *, every_choice: bool) -> None:
    answers_agree(written(tmp_path, HOST, core(0), core(1)), shop, every_choice=every_choice)


@pytest.mark.parametrize(
    ("shop", "name"),
    [("shared by workers", "xla/tpu_v6e_x4_offload"), ("here, on disk", "broken/truncated.xplane.pb")],
    indirect=["shop"],
)
def test_answers_about_real_devices_need_no_hosts(name: str, shop: ReadContext, shared: Path) -> None:
    answers_agree(shared / "traces" / name, shop)


def test_small_files_are_read_whole(tmp_path: Path) -> None:
    assert on_hosts(read(written(tmp_path, HOST, core(0))))


def test_what_was_read_whole_is_not_read_again(tmp_path: Path, shop: ReadContext) -> None:
    path = written(tmp_path, HOST, core(0))
    read(path, shop, devices=False)
    assert on_hosts(read(path, shop))


@pytest.mark.parametrize("shop", some(WAYS, WAYS[::2]), indirect=True)
def test_what_was_read_of_devices_is_kept_until_all_is_read(tmp_path: Path, shop: ReadContext) -> None:
    path = written(tmp_path, HOST, core(0))
    homes = [read(path, shop).parts[0].cache_folder for _ in range(2)]
    assert homes[0] == homes[1]
    assert on_hosts(read(path, shop, devices=False))
    assert shop.cache
    assert len(shop.cache.list_entries()) == 2  # this process still uses the first
    shop.close()
    with make_read_context(1, partial(open_cache, tmp_path / "kept")) as later:
        assert on_hosts(read(path, later))


def test_all_takes_the_place_of_what_devices_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_reader, "MAX_IN_MEMORY_BYTES", 0)
    path = written(tmp_path, HOST, core(0))
    for devices in (True, False):
        with make_read_context(1, partial(open_cache, tmp_path / "kept")) as shop:
            read(path, shop, devices=devices)
    with make_read_context(1, partial(open_cache, tmp_path / "kept")) as shop:
        assert shop.cache
        assert len(shop.cache.list_entries()) == 1


def test_devices_without_events_say_nothing_of_their_hosts(tmp_path: Path, shop: ReadContext) -> None:
    path = written(tmp_path, HOST, Plane("/device:TPU:0", [Line("XLA Ops", [])]))
    assert on_hosts(read(path, shop)) == 30


@pytest.mark.parametrize("name", ["/device:GPU:0", "/host:metadata"])
def test_other_devices_need_their_hosts(name: str, tmp_path: Path) -> None:
    other = Plane(name, [Line("Stream #1(Kernel)", [Event("k", 0, 5)])])
    assert not XPLANE.reader.separable(written(tmp_path, HOST, other))


def test_hosts_come_along_in_a_compressed_file(tmp_path: Path, shop: ReadContext) -> None:
    path = tmp_path / "host0.xplane.pb.gz"
    path.write_bytes(gzip.compress(space(HOST, core(0))))
    assert on_hosts(read(path, shop))


@pytest.mark.parametrize(
    ("more", "whole"),
    [
        ((), False),
        (("--format", "csv"), False),
        (("--format", "json"), True),  # it has the ids of events, and how long the trace is
        (("--window", "0us..100us"), True),
        (("--step", "1"), True),
    ],
)
def test_a_report_reads_what_it_needs(
    more: tuple[str, ...], *, whole: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_reader, "MAX_IN_MEMORY_BYTES", 0)
    path, kept = written(tmp_path, HOST, core(0)), tmp_path / "kept"
    assert main(["report", str(path), "ops", "--cache", str(kept), *more]) == 0
    with make_read_context(1, partial(open_cache, kept)) as shop:
        assert bool(on_hosts(read(path, shop))) == whole
