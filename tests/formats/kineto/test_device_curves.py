"""The curves of utilization that a Kineto file gets as counters of its devices."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from short import first
from tracehound.formats import KINETO
from tracehound.formats.kineto import device_curves as module
from tracehound.formats.kineto.device_curves import MIN_KERNELS
from tracehound.model.trace import FileFrames

US = 10**6


def read(folder: Path, kernels: int, more: Sequence[dict[str, object]] = (), **args: object) -> FileFrames:
    """Kernels of 5 us that begin every 10 us, and more events."""
    events = [
        {
            "ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 10 * n, "dur": 5,
            "args": {"device": 0, "stream": 7, **args},
        }
        for n in range(kernels)
    ]  # fmt: skip
    path = folder / "trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": [*more, *events]}))
    return KINETO.read(path)


def curves(part: FileFrames) -> dict[str, list[tuple[int, float]]]:
    """By name of the lane: time (us) and value."""
    lanes = part.lanes.filter(role="counter").select("lane", "name").rows()
    samples = [(lane, time // US, value) for lane, time, value in part.counters.iter_rows()]
    return {name: [(time, value) for lane, time, value in samples if lane == own] for own, name in lanes}


def test_a_device_has_its_utilization_and_efficiency_in_percent(tmp_path: Path) -> None:
    part = read(tmp_path, MIN_KERNELS, **{"blocks per SM": 0.25})
    found = curves(part)
    assert list(found) == ["GPU utilization", "SM efficiency"]
    assert found["GPU utilization"][:4] == [(0, 100.0), (5, 0.0), (10, 100.0), (15, 0.0)]
    assert found["SM efficiency"][:4] == [(0, 25.0), (5, 0.0), (10, 25.0), (15, 0.0)]
    assert found["SM efficiency"][-1] == (10 * MIN_KERNELS - 5, 0.0)
    assert part.lanes.filter(role="counter").select("rank", "unit").rows() == [(0, "%")] * 2


def test_what_is_not_recorded_has_no_curve(tmp_path: Path) -> None:
    assert list(curves(read(tmp_path, MIN_KERNELS))) == ["GPU utilization"]


def test_a_curve_is_there_where_it_is_known(tmp_path: Path) -> None:
    """At 0 while kernels run of which nothing is told it would be false."""

    def known(*numbers: int) -> list[dict[str, object]]:
        return [
            {
                "ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 10 * n, "dur": 5,
                "args": {"device": 0, "stream": 7, "blocks per SM": 0.25},
            }
            for n in numbers
        ]  # fmt: skip

    later = curves(read(tmp_path, 20, known(*range(50, 130))))
    assert (later["GPU utilization"][0], later["SM efficiency"][0]) == ((0, 100.0), (500, 25.0))
    apart = curves(read(tmp_path, 20, known(*range(20, 60))))
    assert apart["SM efficiency"][0] == (200, 25.0)
    unknown = [{**event, "args": {"device": 0, "stream": 7}} for event in known(*range(60, 80))]
    between = [*known(*range(20, 60)), *unknown, *known(*range(80, 120))]
    assert list(curves(read(tmp_path, 1, between))) == ["GPU utilization"]
    assert "SM efficiency" in curves(read(tmp_path, 1, [*known(*range(20, 120)), *unknown[:1]]))


def test_those_of_an_export_make_way_for_them(tmp_path: Path) -> None:
    names = ("Utilization, GPU", "Utilization, occupancy", "Queue length, stream 7")
    told = [{"ph": "C", "name": name, "pid": 0, "ts": 0, "by": "tracehound", "args": {"%": 7}} for name in names]
    assert list(curves(read(tmp_path, MIN_KERNELS, told))) == [*names[1:], "GPU utilization"]
    assert list(curves(read(tmp_path, MIN_KERNELS - 1, told))) == list(names), "which then are all that is known"
    older = [{**told[0], "name": name} for name in ("Utilisation, GPU", "Utilisation, occupancy")]
    assert list(curves(read(tmp_path, MIN_KERNELS, older))) == ["Utilisation, occupancy", "GPU utilization"]
    others = [{**told[0], "name": "GPU utilization"}]
    assert list(curves(read(tmp_path, MIN_KERNELS, others))) == ["GPU utilization"]


def test_a_few_kernels_speak_for_themselves(tmp_path: Path) -> None:
    assert not curves(read(tmp_path, MIN_KERNELS - 1))


def test_a_curve_is_short_however_long_the_trace(tmp_path: Path) -> None:
    assert len(curves(read(tmp_path, 3000))["GPU utilization"]) <= 1001


@pytest.mark.parametrize("seed", first(2, range(8)))
def test_a_curve_is_the_same_however_many_kernels_are_looked_at_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Some last from one such part into those after it, and some of them tell what they fill."""
    random = Random(seed)
    args = {"device": 0, "stream": 7}
    several = [
        {
            "ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": stream, "ts": random.randrange(9000),
            "dur": random.choice((1, 7, 50, 3000)),
            "args": args | random.choice(({}, {"blocks per SM": 0.25, "est. achieved occupancy %": 40})),
        }
        for stream in range(3)
        for _ in range(60)
    ]  # fmt: skip
    whole = read(tmp_path, MIN_KERNELS, several, **{"blocks per SM": 0.5}).counters
    monkeypatch.setattr(module, "_KERNELS_AT_ONCE", 5)
    cut = read(tmp_path, MIN_KERNELS, several, **{"blocks per SM": 0.5}).counters
    assert cut.drop("value").equals(whole.drop("value"))
    assert cut["value"].to_list() == pytest.approx(whole["value"].to_list())


def test_a_curve_has_a_lane_of_its_own_beside_those_of_memory(tmp_path: Path) -> None:
    """The host's allocator says that it reserves nothing, which has no lane, though it has a number."""
    told = [
        {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1, "ts": ts, "args": args}
        for ts, args in (
            (
                1,
                {"Device Type": 0, "Device Id": -1, "Bytes": 64, "Addr": 1, "Total Allocated": 64, "Total Reserved": 0},
            ),
            (
                2,
                {
                    "Device Type": 1,
                    "Device Id": 0,
                    "Bytes": 64,
                    "Addr": 2,
                    "Total Allocated": 64,
                    "Total Reserved": 128,
                },
            ),
        )
    ]
    part = read(tmp_path, MIN_KERNELS, told)
    assert part.lanes["lane"].is_unique().all()
    found = curves(part)
    assert {value for _, value in found["memory reserved"]} == {128.0}
    assert {value for _, value in found["GPU utilization"]} == {0.0, 100.0}


def test_what_is_reserved_is_told_where_it_changes(tmp_path: Path) -> None:
    """Each event of memory tells it; what is allocated is another with each."""

    def told(ts: int, allocated: int, reserved: int, device: int) -> dict[str, object]:
        args = {"Device Type": 1, "Device Id": device, "Bytes": 64, "Addr": 1, "Total Allocated": allocated}
        args |= {"Total Reserved": reserved}
        return {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1, "ts": ts, "args": args}

    reserved = [128, 128, 128, 256, 256, 128]
    several = [told(ts, 64 * ts, size, 0) for ts, size in enumerate(reserved, 1)]
    steady = [told(10 * ts, 64, 128, 1) for ts in range(1, 4)]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": [*reversed(several), *steady]}))
    found = curves(KINETO.read(path))
    values = {name: [(time - samples[0][0], value) for time, value in samples] for name, samples in found.items()}
    alike = [(0, 128), (2, 128), (3, 256), (4, 256), (5, 128)]
    assert sorted(values.values()) == sorted(
        [[(ts, 64 * (ts + 1)) for ts in range(6)], alike, [(0, 64), (20, 64)], [(0, 128), (20, 128)]]
    )
