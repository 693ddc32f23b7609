"""The roofline: how near ops come to their device's peaks, and of how much of the time nothing can be said."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from building import Building, Lane
from tracehound.analysis import Options, Result, get_analysis, run_analysis
from tracehound.draw.charts.analysis_charts import draw_chart
from tracehound.draw.glyphs import to_ascii
from tracehound.draw.notes import note_texts

OPS = Lane("XLA Ops", 0, "ops", work=True)
PEAK = ("peak", "bf16:100G,f32:10G,1GB/s")


def op(number: int, name: str, category: str = "loop fusion", **more: object) -> dict[str, object]:
    return {"op": number, "name": name, "category": category, "module": "jit_f", "program": 1, **more}


MIXED = [
    op(0, "dot", "convolution fusion", flops=500_000, bytes_accessed=1_000, dtype="bf16"),
    op(1, "add", flops=1_000, bytes_accessed=8_000),
    op(2, "dot.1", "convolution fusion", flops=50_000, bytes_accessed=1_000, dtype="f32"),
    op(3, "psum", "all-reduce", flops=10, bytes_accessed=9_000),
    op(4, "absurd", "custom-call", flops=10**9, bytes_accessed=10),
    op(5, "mystery", "custom-call"),
    op(6, "fmha", "custom-call", flops=0, estimated_flops=100_000, estimated_bytes=100),
]


def roofline(*given: tuple[str, str]) -> Result:
    """Every op runs once for 10 us."""
    b = Building(ops=MIXED, format="xplane")
    for number, each in enumerate(MIXED):
        kind = "collective" if each["name"] == "psum" else "op"
        b.event(OPS, str(each["name"]), 10 * number, 10 * number + 10, kind, op=number)
    return run_analysis(get_analysis("roofline"), b.trace(), None, Options(given=given))


def test_places_under_the_roof() -> None:
    found = {row["name"]: row for row in roofline(PEAK).table.rows(named=True)}
    dot, add, single = found["dot"], found["add"], found["dot.1"]
    assert (dot["intensity"], dot["rate"], dot["roof"]) == (500, pytest.approx(50e9), 100e9)
    assert (dot["of_compute"], dot["of_memory"], dot["bound_by"]) == (pytest.approx(0.5), pytest.approx(0.1), "compute")
    assert (add["roof"], add["of_memory"], add["bound_by"]) == (pytest.approx(0.125e9), pytest.approx(0.8), "HBM")
    assert add["efficiency"] == add["of_memory"]
    assert (single["peak"], single["of_compute"]) == (10e9, pytest.approx(0.5))
    assert found["fmha"]["estimated"]


def test_what_nothing_is_known_of_has_no_bandwidth() -> None:
    found = {row["name"]: row for row in roofline(PEAK).table.rows(named=True)}
    assert (found["mystery"]["rate"], found["mystery"]["bandwidth"]) == (None, None)


def test_feeding_waits_for_the_host() -> None:
    b = Building(ops=[op(0, "infeed", "infeed", bytes_accessed=1024), op(1, "add", flops=9, bytes_accessed=9)])
    b.format = "xplane"
    b.event(OPS, "infeed", 0, 30, "transfer", op=0)
    b.event(OPS, "add", 30, 40, "op", op=1)
    result = run_analysis(get_analysis("roofline"), b.trace(), None, Options(given=(PEAK,)))
    assert result.table.filter(name="infeed")["bound_by"].to_list() == ["host link"]
    assert (
        note_texts(result.notes)[0] == "covers 25.0 % of the ops' self time; the rest: 75.0 % waits for the host link"
    )


def test_what_is_not_judged_is_said() -> None:
    result = roofline(PEAK)
    found = {row["name"]: row for row in result.table.rows(named=True)}
    for name in ("psum", "absurd", "mystery"):
        assert (found[name]["of_compute"], found[name]["of_memory"], found[name]["efficiency"]) == (None, None, None)
    assert found["absurd"]["above"] == "compute"
    assert note_texts(result.notes)[0] == (
        "covers 57.1 % of the ops' self time; the rest: 14.3 % waits for the interconnect, 14.3 % of "
        "unknown cost, 14.3 % above the peak"
    )
    assert note_texts(result.notes)[1] == "operations or bytes of 14.3 % are estimated from shapes"


def test_all_ops_together_leave_out_what_is_not_true() -> None:
    work, moved = 500_000 + 1_000 + 50_000 + 10 + 100_000, 1_000 + 8_000 + 1_000 + 9_000 + 100
    whole = note_texts(roofline(PEAK).notes)[2].replace("9.30", "9.3")
    assert f"all ops: 9.3 GFLOP/s at {work / moved:.1f} operations" in whole


@pytest.mark.parametrize("given", [(), (PEAK,)])
def test_bytes_of_a_call_of_unknown_operations_are_not_in_the_intensity_of_all(
    given: tuple[tuple[str, str], ...],
) -> None:
    """Its operands may be larger than what it reads: only a peak tells, and the quotient may not hang on that."""
    b = Building(ops=[
        op(0, "dot", "convolution fusion", flops=50_000, bytes_accessed=1_000, dtype="f32"),
        op(1, "paged", "custom-call", estimated_bytes=1_000_000),
    ])  # fmt: skip
    for number in (0, 1):
        b.event(OPS, ("dot", "paged")[number], 10 * number, 10 * number + 10, "op", op=number)
    notes = note_texts(run_analysis(get_analysis("roofline"), b.trace(), None, Options(given=given)).notes)
    assert "all ops: 2.50 GFLOP/s at 50 operations per byte (device time, idle included)" in notes


def test_without_a_peak_there_is_no_roof() -> None:
    result = roofline()
    assert result.table.select("roof", "of_compute", "of_memory", "efficiency").null_count().sum_horizontal()[0] == 28
    assert "•" not in "".join(draw_chart(result, "self", 0, (80, 24)))
    assert any(
        ("the peaks of the device are unknown, so bounds are empty: set them with --peak (v6e, H100, 989T,3.35TB/s)")
        in note
        for note in note_texts(result.notes)
    )


def test_the_plot_has_the_roof_and_the_ops_under_it() -> None:
    result = roofline(PEAK)
    drawn = draw_chart(result, "self", -1, (80, 24))
    assert len(drawn) == 24
    assert {len(line) for line in drawn} == {80}
    picture = "\n".join(drawn[:17])
    assert all(glyph in picture for glyph in "1234•")
    names = [row["name"] for row in result.table.rows(named=True) if row["efficiency"] is not None]
    assert [line.split(":")[0] for line in drawn[-5:-1]] == [f"{n} {name}" for n, name in enumerate(names, 1)]
    assert draw_chart(result, "self", -1, (130, 24))[-1].rstrip() == (
        "FLOP/s over FLOP/byte of memory; roof: 100 GFLOP/s and 1.00 GB/s, ridge 100; "
        "10.0 GFLOP/s and 1.00 GB/s, ridge 10"
    )


def test_the_roof_has_a_likeness_in_ascii() -> None:
    lines = [to_ascii(line) for line in draw_chart(roofline(PEAK), "self", 0, (80, 20))]
    assert any("...." in line for line in lines), "the roof"
    assert not any("?" in line for line in lines)


def test_the_op_under_the_cursor_is_marked() -> None:
    result = roofline(PEAK)
    row = result.table["name"].to_list().index("add")
    assert "X" in "".join(draw_chart(result, "self", row, (80, 24))[:17])
    assert "X" not in "".join(draw_chart(result, "self", -1, (80, 24))[:17])


def test_no_room_gives_way_to_bars() -> None:
    drawn = draw_chart(roofline(PEAK), "self", 0, (39, 8))
    assert drawn
    assert "roof" not in drawn[-1]


amounts = st.sampled_from([None, -1, 0, 1, 1_000, 10**6, 2**62])


@pytest.mark.thorough
@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "category": st.sampled_from(["custom-call", "loop fusion", "copy-start", "copy-done", "while", None]),
                "dtype": st.sampled_from([None, "bf16", "f32", "token", ""]),
                **dict.fromkeys(
                    ("flops", "normalized_flops", "bytes_accessed", "hbm_bytes", "host_bytes", "vmem_read",
                     "estimated_flops", "estimated_bytes"), amounts,
                ),
            }
        ),
        min_size=1, max_size=4,
    ),
    st.integers(0, 20),
    st.sampled_from(["", "H100", "1T", "5GB/s"]),
)  # fmt: skip
def test_whatever_is_counted_shares_stay_shares_and_the_plot_is_as_large_as_its_room(
    drawn: list[dict[str, object]], length: int, peak: str
) -> None:
    b = Building(format="xplane")
    b.ops = [{"op": n, "name": f"op.{n}", "module": "m", "program": 1, **each} for n, each in enumerate(drawn)]
    for number in range(len(drawn)):
        b.event(OPS, f"op.{number}", 30 * number, 30 * number + length, "transfer" if number == 1 else "op", op=number)
    trace = b.trace()
    for name in ("hlo_ops", "roofline"):
        result = run_analysis(get_analysis(name), trace, None, Options(given=(("peak", peak),)))
        for column in result.columns:
            if column.unit in ("share", "flops", "rate"):
                values = result.table[column.name].drop_nulls()
                assert values.is_finite().all(), column.name
                assert (values >= 0).all()
                assert column.unit != "share" or (values <= 1.000001).all()
        drawn_lines = draw_chart(result, "self", 0, (60, 20))
        assert {len(line) for line in drawn_lines} <= {60}
        assert len(drawn_lines) <= 20


def test_a_trace_without_hlo_ops_says_so() -> None:
    b = Building()
    b.event(Lane("python"), "aten::mm", 0, 5, "op")
    result = run_analysis(get_analysis("roofline"), b.trace())
    assert result.table.is_empty()
    assert result.notes
