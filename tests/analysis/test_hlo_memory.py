"""The memory of XLA's programs: peaks, what is there at them, and the way to them."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from msgspec.structs import replace

from building import Building, Lane
from tracehound.analysis import Options, get_analysis, run_analysis
from tracehound.draw.notes import note_texts
from tracehound.draw.text_table import body_lines
from tracehound.model.facet_schemas import FACET_SCHEMAS
from tracehound.model.file_facts import FileFacts, HloProgram
from tracehound.model.trace import Trace
from tracehound.store import merge_file_frames

MIB = 1 << 20


def buffer(name: str, size: int, first: int | None, last: int | None, **more: Any) -> dict[str, Any]:
    row = {"module": "jit_f", "program": -1, "space": 0, "first": first, "last": last, "bytes": size, "name": name}
    return {**row, "sort": "temporary" if first is not None else "parameter", "peak": True, **more}


BUFFERS = [
    buffer("x", 4 * MIB, None, None, unpadded=4 * MIB, framework="args", source="m.py:1", opcode="parameter"),
    buffer("a{0}", 8 * MIB, 0, 3, unpadded=2 * MIB, framework="jit(f)/dot", source="m.py:2", opcode="dot"),
    buffer("b", 4 * MIB, 1, None, unpadded=4 * MIB, framework="jit(f)/dot", source="m.py:3", opcode="add"),
    buffer("c", 2 * MIB, 4, 5, peak=False),
    buffer("h", 1 * MIB, None, None, space=5, unpadded=1 * MIB, opcode="copy"),
    buffer("g", 32 * MIB, 0, None, module="jit_g", program=3, unpadded=32 * MIB, opcode="add"),
]


@pytest.fixture
def trace() -> Trace:
    """Two ranks of one file, of which one executes jit_f."""
    b = Building(format="xplane")
    b.ops = [{"op": 0, "name": "a", "program": -1, "module": "jit_f"}]
    b.event(Lane("XLA Ops", 0, "ops", work=True), "a", 0, 10, "op", op=0)
    b.event(Lane("XLA Ops", 1, "ops", work=True), "other", 0, 10, "op")
    facets = {"buffers": pl.DataFrame(BUFFERS, schema=FACET_SCHEMAS["buffers"]).lazy()}
    return merge_file_frames("t", [replace(b.part(), facets=facets)])


def test_each_program_has_a_peak_in_each_memory(trace: Trace) -> None:
    result = run_analysis(get_analysis("hlo_memory"), trace)
    names = ("program", "space", "ranks", "peak", "position", "at", "buffers", "padding", "temporary", "largest")
    assert result.table.select(names).rows() == [
        ("jit_g(3)", "device", 0, 32 * MIB, 0, "g", 1, 0.0, 32 * MIB, "g"),
        ("jit_f(18446744073709551615)", "device", 1, 16 * MIB, 1, "b", 3, 0.375, 12 * MIB, "a{0}"),
        ("jit_f(18446744073709551615)", "host", 1, MIB, None, None, 1, 0.0, 0, "h"),
    ]
    assert note_texts(result.notes)[0] == "jit_g(3) needs 32.0 MiB of device memory at its peak"
    assert note_texts(result.notes)[1].startswith("programs keep up to 1.00 MiB in host memory")


@pytest.mark.parametrize("analysis", ["hlo_memory", "hlo_heap", "hlo_buffers"])
def test_that_protos_are_damaged_is_said_rather_than_that_they_were_not_recorded(analysis: str) -> None:
    b = Building(
        format="xplane", facts=FileFacts(programs=tuple(HloProgram(name, damaged=name != "h") for name in "fgh"))
    )
    b.event(Lane("XLA Ops", 0, "ops", work=True), "a", 0, 10, "op")
    (note,) = note_texts(run_analysis(get_analysis(analysis), b.trace()).notes)
    assert note.endswith("no buffer assignment: the HLO proto of f and 1 more program is damaged")


def test_what_is_there_at_the_peak(trace: Trace) -> None:
    result = run_analysis(get_analysis("hlo_buffers"), trace, options=Options(given=(("program", "jit_f"),)))
    names = ("buffer", "space", "role", "bytes", "share", "padding", "first", "last")
    assert result.table.select(names).rows() == [
        ("a{0}", "device", "temporary", 8 * MIB, 0.5, 6 * MIB, 0, 3),
        ("b", "device", "temporary", 4 * MIB, 0.25, 0, 1, None),
        ("x", "device", "parameter", 4 * MIB, 0.25, 0, None, None),
        ("h", "host", "parameter", MIB, 1.0, 0, None, None),
    ]


def test_buffers_of_several_memories_are_told_apart_on_a_narrow_screen(trace: Trace) -> None:
    def heads(program: str) -> list[str]:
        result = run_analysis(get_analysis("hlo_buffers"), trace, options=Options(given=(("program", program),)))
        return next(line.text for line in body_lines(result, 60)).split()

    assert heads("jit_f") == ["program", "space", "buffer", "bytes", "share", "padding"]
    assert "space" not in heads("jit_g")


@pytest.mark.parametrize(("by", "first"), [
    ("framework", ("jit(f)/dot", 12 * MIB, 2, 0.75)), ("source", ("m.py:2", 8 * MIB, 1, 0.5)),
    ("opcode", ("dot", 8 * MIB, 1, 0.5)),
])  # fmt: skip
def test_buffers_are_summed_by_what_is_asked_for(trace: Trace, by: str, first: tuple[object, ...]) -> None:
    result = run_analysis(get_analysis("hlo_buffers"), trace, options=Options(given=(("by", by), ("program", "jit_f"))))
    assert result.table.select("buffer", "bytes", "buffers", "share").row(0) == first


def test_the_way_to_the_peak(trace: Trace) -> None:
    result = run_analysis(get_analysis("hlo_heap"), trace, options=Options(given=(("program", "jit_f"),)))
    assert result.table.select("position", "buffer", "allocated", "freed", "held", "share").rows() == [
        (0, "a{0}", 8 * MIB, 0, 12 * MIB, 0.75), (1, "b", 4 * MIB, 0, 16 * MIB, 1.0),
        (3, "a{0}", 0, 8 * MIB, 8 * MIB, 0.5), (4, "c", 2 * MIB, 0, 10 * MIB, 0.625),
        (5, "c", 0, 2 * MIB, 8 * MIB, 0.5),
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["hlo_memory", "hlo_buffers", "hlo_heap"])
def test_without_programs_that_is_said(name: str) -> None:
    b = Building()
    b.event(Lane("stream 7", 0, "stream", work=True), "k", 0, 10)
    result = run_analysis(get_analysis(name), b.trace())
    assert result.table.is_empty()
    assert (
        "no buffer assignment: xplane.pb has it in the HLO protos of programs, recorded with "
        "enable_hlo_proto (the default of jax.profiler and of torch_xla's xp.trace)"
    ) in note_texts(result.notes)[0]


@pytest.mark.parametrize("name", ["hlo_buffers", "hlo_heap"])
def test_no_program_of_that_name_is_no_row(trace: Trace, name: str) -> None:
    assert run_analysis(get_analysis(name), trace, options=Options(given=(("program", "jit_z"),))).table.is_empty()
