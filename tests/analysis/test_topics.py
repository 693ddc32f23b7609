"""Headings of analyses, and which traces cannot answer them."""

from __future__ import annotations

from pathlib import Path

import pytest

from building import Building, stream, thread
from short import first
from tracehound.analysis import ANALYSES, Options, get_analysis, run_analysis
from tracehound.analysis.topics import _LACK_NOTES, LAST_HEADING, NEEDS, TOPICS, group_by_heading, unavailable_note
from tracehound.draw.notes import note_text
from tracehound.model.file_facts import FileFacts, HloProgram
from tracehound.model.notes import note
from tracehound.model.trace import Trace, Window
from tracehound.store import load_trace, merge_file_frames, open_trace_files

NAMES = [analysis.name for analysis in ANALYSES]


def said(name: str, trace: Trace) -> str:
    """Why the trace cannot answer an analysis; "" where it may."""
    why = unavailable_note(name, trace)
    return "" if why is None else note_text(why)


def built(form: str, *, device: bool) -> Building:
    building = Building(format=form)
    building.event(thread(), "aten::mm", 0, 10, "op")
    if device:
        building.event(stream(), "gemm", 2, 8)
    return building


def test_every_analysis_stands_under_one_heading() -> None:
    found = [name for _, names in group_by_heading(NAMES) for name in names]
    assert sorted(found) == sorted(NAMES)


def test_what_no_heading_lists_comes_last() -> None:
    rows = group_by_heading(["new", "ops", "steps"])
    assert rows == [("Time", ["steps"]), ("Device", ["ops"]), (LAST_HEADING, ["new"])]


def test_no_analysis_is_listed_twice() -> None:
    listed = [name for _, row in TOPICS for name in row]
    assert len(set(listed)) == len(listed)
    assert set(NEEDS) <= set(listed)


@pytest.mark.parametrize(
    ("form", "device", "name", "why"),
    first(
        9,
        [
            ("kineto", True, "kernels", ""),
            ("kineto", False, "kernels", "no device activity"),
            ("kineto", True, "programs", "needs an XLA profile"),
            ("xplane", True, "programs", ""),
            ("xplane", True, "operators", "needs a trace of the PyTorch profiler"),
            ("chrome", True, "critical_path", "needs a trace of the PyTorch profiler"),
            ("kineto", False, "operators", ""),
            ("xplane", False, "steps", ""),
            ("xplane", False, "health", ""),
            ("kineto", True, "arrivals", "only one rank is open"),
            ("kineto", True, "memory", "no memory events"),
            ("xplane", True, "memory", "only PyTorch records memory events; for XLA see allocator and hlo_memory"),
            ("xplane", True, "allocator", "no allocator events"),
            ("xplane", True, "sequences", "needs a trace of the PyTorch profiler"),
            ("kineto", True, "sequences", ""),
            ("xplane", True, "hlo_heap", "no buffer assignment"),
        ],
    ),
)
def test_what_a_trace_lacks_is_said(form: str, *, device: bool, name: str, why: str) -> None:
    assert said(name, built(form, device=device).trace()).startswith(why)
    assert bool(why) == bool(said(name, built(form, device=device).trace()))


def test_ranks_of_one_file_have_one_clock() -> None:
    b = built("kineto", device=True)
    assert said("clocks", merge_file_frames("two files", [b.part(), b.part()])) == ""
    b.event(stream(rank=1), "gemm", 2, 8)
    assert said("clocks", b.trace()).startswith("only one file is open")


@pytest.mark.parametrize(("devices", "why"), [(1, "only one rank is open: "), (4, "only one rank: the file merges")])
def test_a_rank_that_may_be_several_devices_is_no_lack_of_files_alone(devices: int, why: str) -> None:
    b = Building(format="xplane", facts=FileFacts(programs=(HloProgram("jit_f", replicas=devices, partitions=1),)))
    b.event(thread(), "main", 0, 10)
    assert said("arrivals", b.trace()).startswith(why)


def test_every_reason_fits_into_the_frame_of_a_narrow_screen() -> None:
    reasons = [note_text(note(code)) for code in _LACK_NOTES.values()]
    assert [words for words in reasons if len(words) > 80 - 4] == []


def test_modules_are_lacking_where_the_file_has_none() -> None:
    b = built("kineto", device=True)
    assert said("modules", b.trace()) == "", "what nobody looked for may be there"
    b.facts = FileFacts(modules=False)
    assert said("modules", b.trace()).startswith("no modules were recorded")
    b.facts = FileFacts(modules=True)
    assert said("modules", b.trace()) == ""


@pytest.mark.parametrize(("sample", "there"), [("torch_ddp_gloo", False), ("torch_stacks", True)])
def test_a_file_says_whether_it_has_modules(samples: Path, sample: str, *, there: bool) -> None:
    trace = load_trace(open_trace_files([samples / sample]))
    assert bool(said("modules", trace)) == (not there)
    assert bool(run_analysis(get_analysis("modules"), trace).total) == there


@pytest.mark.thorough
@pytest.mark.parametrize("sample", first(1, ("torch_ddp_gloo", "torch_stacks", "torch_xla_single", "jax_cpu8_b128")))
def test_what_a_trace_lacks_has_no_rows(samples: Path, sample: str) -> None:
    """Nothing is kept from a reader that would have told something."""
    trace = load_trace(open_trace_files([samples / sample]))
    lacks = [analysis for analysis in ANALYSES if said(analysis.name, trace)]
    assert lacks
    for analysis in lacks:
        assert run_analysis(analysis, trace, Window(), Options()).total == 0, analysis.name
