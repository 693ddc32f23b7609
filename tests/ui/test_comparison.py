"""Two runs side by side under a pilot: what one timeline does the other does, and tables lead to both."""

from __future__ import annotations

import gzip
import json
import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import polars as pl
import pytest
from msgspec.structs import replace
from textual.app import ComposeResult
from textual.pilot import Pilot

from exploring import in_full, press, read_once, rows_in_full, settled
from terminal import Terminal
from tracehound.cli.main import main
from tracehound.model.trace import collect_frame
from tracehound.store import TraceReader, open_trace_files
from tracehound.ui.background.analysis_runner import ComparisonRunner, TracePair
from tracehound.ui.bindings.keys import KEYS
from tracehound.ui.explorer_app import ComparisonApp, ComparisonCommands
from tracehound.ui.panes.comparison_panes import ComparisonPanes
from tracehound.ui.screens.comparison_screen import ComparisonScreen
from tracehound.ui.screens.hlo_screen import HloScreen
from tracehound.ui.state import view_moves
from tracehound.ui.widgets.result_table import ResultTable

HOUR = 3_600 * 10**9
"""In nanoseconds."""


@asynccontextmanager
async def compared(
    *openings: TraceReader, size: tuple[int, int] = (120, 40)
) -> AsyncIterator[tuple[ComparisonScreen, Pilot[None]]]:
    app = ComparisonApp(*openings)
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        yield app.comparison, pilot


@pytest.fixture
def jax(samples: Path) -> tuple[TraceReader, TraceReader]:
    baseline, candidate = (read_once(samples / name) for name in ("jax_cpu8_b128", "jax_cpu8_b4096"))
    return baseline, candidate


def lines(screen: ComparisonScreen, side: int) -> list[str]:
    """What a side shows, from its bar on."""
    shown = screen.sides[side]
    return [
        shown.bar.render_line(0).text,
        *(shown.timeline.render_line(y).text for y in range(shown.timeline.size.height)),
    ]


def header(screen: ComparisonScreen) -> str:
    return screen.header.render_line(0).text


async def test_both_open_at_a_pair_of_steps(jax: tuple[TraceReader, TraceReader]) -> None:
    async with compared(*jax) as (screen, _):
        assert screen.state.alignment == "step"
        assert "aligned: by step" in header(screen)
        assert "- baseline jax_cpu8_b128" in lines(screen, 0)[0]
        assert "+ candidate jax_cpu8_b4096" in lines(screen, 1)[0]
        baseline, candidate = (screen.state.pair or (None, None))[:2]
        assert baseline is not None
        assert candidate is not None
        assert baseline.number == candidate.number
        of_one = f"step {baseline.number} of rank {baseline.rank}: "
        assert of_one in header(screen), "the tables are of an average step and rank: this is of one pair"
        views = screen.state.views
        assert candidate.start - views[1].start == baseline.start - views[0].start
        table = screen.differences.tables["diff-ops"].table
        assert table.result is not None
        assert table.row is not None
        assert table.row["name"] == "all-reduce", "the largest effect on the step comes first"


@pytest.mark.parametrize(
    "keys", ["1 w w right L . 2 left s 0", *in_full("1 w w right L . left s 0", "2 w w right L . left s 0")]
)
async def test_zoom_and_pan_move_both(jax: tuple[TraceReader, TraceReader], keys: str) -> None:
    async with compared(*jax) as (screen, pilot):
        for key in keys.split():
            await press(pilot, key)
            baseline, candidate = screen.state.views
            assert candidate.end - candidate.start == baseline.end - baseline.start
            assert candidate.start - baseline.start == screen.state.offset
            assert [side.timeline.view for side in screen.sides] == [baseline, candidate]


@pytest.mark.thorough
async def test_what_only_one_run_has_is_said(jax: tuple[TraceReader, TraceReader]) -> None:
    async with compared(*jax) as (screen, pilot):
        for pane in ("1", "3"):
            for key in ("M", "B"):
                await press(pilot, pane, key)
                assert "the explorer of one run" in screen.key_bar.render_line(0).text, (pane, key)


@pytest.mark.thorough
async def test_m_leads_through_the_alignments_and_back(jax: tuple[TraceReader, TraceReader]) -> None:
    async with compared(*jax) as (screen, pilot):
        seen = []
        for _ in range(3):
            await press(pilot, "m")
            seen.append(screen.state.alignment)
        assert seen == ["sequence", "start", "step"]


async def test_matched_ops_carry_signs_and_n_walks_through_what_differs(jax: tuple[TraceReader, TraceReader]) -> None:
    async with compared(*jax) as (screen, pilot):
        await press(pilot, "m")
        assert screen.aligning.slots is not None
        assert sum(screen.aligning.slots.counts) > 100
        for trace in screen.aligning.slots.traces:
            assert trace.span[1] == screen.state.views[0].end
        assert "slower" in screen.key_bar.message or "added" in screen.key_bar.message
        await press(pilot, "n", "n")
        chosen = [(side, view.event) for side, view in enumerate(screen.state.views) if view.event is not None]
        (side, event) = chosen[-1]
        row = screen.aligning.slots.traces[side].event(event)
        assert row["op"] != 0
        await press(pilot, "escape", "escape")
        assert screen.aligning.slots is None
        assert screen.state.alignment == "step"


@pytest.mark.thorough
async def test_n_says_what_it_needs(jax: tuple[TraceReader, TraceReader]) -> None:
    async with compared(*jax) as (screen, pilot):
        await press(pilot, "n")
        assert "align by matched sequence first" in screen.key_bar.message


@pytest.mark.thorough
async def test_the_footer_names_n_where_it_walks(jax: tuple[TraceReader, TraceReader]) -> None:
    async with compared(*jax) as (screen, pilot):
        assert " n next " not in screen.key_bar.render_line(0).text
        await press(pilot, "m")
        assert screen.aligning.slots is not None
        screen.key_bar.clear_message()
        assert " n next " in screen.key_bar.render_line(0).text


@pytest.mark.thorough
async def test_runs_of_jax_are_not_told_that_pytorch_records_their_memory(jax: tuple[TraceReader, TraceReader]) -> None:
    async with compared(*jax) as (screen, pilot):
        await press(pilot, "9")
        shown = " ".join(" ".join(strip.text.strip() for strip in screen._compositor.render_strips()).split())
        assert "no counter of bytes in both runs; a run of PyTorch has one with profile_memory=True" in shown


async def test_enter_on_an_op_goes_to_its_longest_execution_on_both_sides(jax: tuple[TraceReader, TraceReader]) -> None:
    async with compared(*jax) as (screen, pilot):
        await press(pilot, "3", "enter")
        assert screen.state.alignment == "instance"
        row = screen.differences.tables["diff-ops"].table.row
        assert row is not None
        events = [view.event for view in screen.state.views]
        assert events == [row["baseline_event"], row["candidate_event"]]
        for side, event in zip(screen.sides, events, strict=True):
            assert side.trace is not None
            assert event is not None
            assert side.trace.event(event)["name"].startswith("all-reduce")
            assert "all-reduce" in side.bar.render_line(0).text
        starts = [side.trace.event(view.event)["start"] - view.start
                  for side, view in zip(screen.sides, screen.state.views, strict=True)
                  if side.trace is not None and view.event is not None]  # fmt: skip
        assert starts[0] == starts[1]
        await press(pilot, "1", "escape", "escape")
        assert screen.state.alignment == "step"


@pytest.mark.thorough
async def test_an_op_of_a_rank_or_lane_that_is_not_shown_comes_into_sight(samples: Path) -> None:
    openings = [open_trace_files([samples / "torch_ddp_gloo"]) for _ in range(2)]
    async with compared(*openings, size=(140, 50)) as (screen, pilot):
        table = screen.differences.tables["diff-ops"].table
        seen = set()
        await press(pilot, "3")
        for _ in range(12):
            await press(pilot, "enter", "down")
            for side, view in zip(screen.sides, screen.state.views, strict=True):
                assert side.trace is not None
                assert view.event is not None
                lane = side.trace.event(view.event)["lane"]
                seen.add(lane >> 32)
                assert lane in [stop for stop, _ in side.timeline.outline.cursor_stops()]
        assert table.row is not None
        assert len(seen) == 2, "the longest of some are on the other rank"


@pytest.mark.parametrize("before", in_full("2", "9"))
async def test_the_waterfall_has_no_keys_of_what_was_there_before(
    jax: tuple[TraceReader, TraceReader], before: str
) -> None:
    async with compared(*jax) as (screen, pilot):
        await press(pilot, before, "5")
        assert screen.focused is screen.differences.waterfall
        assert screen.key_bar.group == "comparison"
        footer = screen.key_bar.render_line(0).text
        assert "swap" in footer
        assert not {"go", "window", "columns", "pan"} & set(footer.split())
        shown = screen.state
        await press(pilot, "enter", "space", "greater_than_sign", "r", "+")
        assert screen.state == shown
        await press(pilot, "3")
        assert screen.focused is screen.differences.tables["diff-ops"].table


async def test_s_swaps_the_runs_and_the_signs_of_all_changes(jax: tuple[TraceReader, TraceReader]) -> None:
    async with compared(*jax) as (screen, pilot):
        before = screen.comparison
        await press(pilot, "S")
        after = screen.comparison
        assert before is not None
        assert after is not None
        assert "- baseline jax_cpu8_b4096" in lines(screen, 0)[0]
        assert screen.sides[0].region.y < screen.sides[1].region.y
        assert after.step.table["change"][0] == -before.step.table["change"][0]
        assert screen.differences.tables["diff"].table.result is after.step
        for side in screen.sides:
            side.command_words = side.opening.name
        await press(pilot, "Y")
        assert pilot.app.clipboard.startswith("tracehound diff jax_cpu8_b4096 jax_cpu8_b128")


@pytest.mark.thorough
async def test_rows_of_runs_that_stood_otherwise_lead_nowhere(
    jax: tuple[TraceReader, TraceReader], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with compared(*jax) as (screen, pilot):
        asked: list[TracePair] = []
        compare = screen.contrast.compare
        monkeypatch.setattr(screen.contrast, "compare", asked.append)
        table = screen.differences.tables["diff-ops"].table
        old = (table.row, table.result)
        await press(pilot, "3", "S")
        swapped = screen.state
        await press(pilot, "enter")
        assert screen.state == swapped
        assert "compared anew" in screen.key_bar.message
        compare(*asked)
        await settled(pilot)
        assert table.result is not old[1]
        assert old[0] is not None
        table.post_message(ResultTable.RowChosen(table, old[0], None, old[1]))
        await settled(pilot)
        assert screen.state == swapped, "nor does one that was on its way"
        await press(pilot, "enter")
        assert table.row is not None
        assert [view.event for view in screen.state.views] == [
            table.row["baseline_event"],
            table.row["candidate_event"],
        ]


@pytest.mark.thorough
async def test_a_swap_while_the_runs_are_compared_has_them_compared_as_they_stand(
    jax: tuple[TraceReader, TraceReader],
) -> None:
    async with compared(*jax) as (screen, pilot):
        for _ in range(2):
            screen.action_swap()
        await settled(pilot)
        assert screen.comparison is not None
        assert screen.comparison.baseline.name == "jax_cpu8_b128"
        screen.action_swap()
        await settled(pilot)
        assert screen.comparison.baseline.name == "jax_cpu8_b4096"


@pytest.mark.thorough
async def test_what_was_selected_in_a_run_is_not_looked_for_among_matched_ops(
    jax: tuple[TraceReader, TraceReader], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with compared(*jax) as (screen, pilot):
        found: list[ComparisonRunner.Aligned] = []
        with monkeypatch.context() as held:
            held.setattr(screen.aligning, "show_matched_ops", found.append)
            await press(pilot, "m")
        for side in screen.sides:
            trace = side.trace
            assert trace is not None
            ids = collect_frame(trace.events().select(pl.col("id").max()))["id"]
            side.timeline._set_view(view_moves.select_event(trace, side.timeline.view, int(ids[0])))
        screen.aligning.show_matched_ops(*found)
        await settled(pilot)
        assert screen.state.alignment == "sequence"
        assert [view.event for view in screen.state.views] == [None, None]
        assert [side.timeline.view for side in screen.sides] == [*screen.state.views]


@pytest.mark.thorough
async def test_a_matched_op_is_not_looked_for_in_a_run(jax: tuple[TraceReader, TraceReader]) -> None:
    async with compared(*jax) as (screen, pilot):
        await press(pilot, "m")
        for side in screen.sides:
            assert side.timeline.trace is not None
            side.timeline.action_mark()
            side.timeline._set_view(view_moves.select_event(side.timeline.trace, side.timeline.view, 0))
        screen.action_back()
        await settled(pilot)
        assert screen.state.alignment == "step"
        for side, view in zip(screen.sides, screen.state.views, strict=True):
            assert (view.event, view.selection) == (None, None)
            assert side.timeline.view == view
        await press(pilot, "1", "right")
        assert screen.state.views[0].selection is None, "nor does a range that began there go on"


@pytest.mark.thorough
async def test_the_steps_that_are_looked_at_when_ops_are_matched_are_those_that_are_shown(
    jax: tuple[TraceReader, TraceReader], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with compared(*jax) as (screen, pilot):
        found: list[ComparisonRunner.Aligned] = []
        with monkeypatch.context() as held:
            held.setattr(screen.aligning, "show_matched_ops", found.append)
            await press(pilot, "m", ")" if screen.state.at == 0 else "(")
        screen.aligning.show_matched_ops(*found)
        await settled(pilot)
        assert screen.aligning.slots is not None
        assert screen.state.alignment == "sequence"
        baseline, _ = screen.state.pair or (None, None)
        assert baseline is not None
        assert screen.aligning.slots.traces[0].span[1] == screen.state.views[0].end
        events = screen.aligning.slots.origins[0]
        trace = screen.sides[0].trace
        assert trace is not None
        assert baseline.start <= trace.event(int(events[0]))["start"] < baseline.end


async def test_steps_are_paired_by_hand(jax: tuple[TraceReader, TraceReader]) -> None:
    async with compared(*jax) as (screen, pilot):
        at = screen.state.at
        before = screen.state.partners[at]
        await press(pilot, "T" if before == 0 else "t")
        assert abs(screen.state.partners[at] - before) == 1
        await press(pilot, ")" if at == 0 else "(")
        assert screen.state.at != at
        baseline, candidate = screen.state.pair or (None, None)
        assert baseline is not None
        assert candidate is not None
        assert f"step {baseline.number}, " in lines(screen, 0)[0]
        assert f"step {candidate.number}, " in lines(screen, 1)[0]


@pytest.mark.thorough
async def test_without_steps_there_are_none_to_pair(jax: tuple[TraceReader, TraceReader]) -> None:
    async with compared(*jax) as (screen, pilot):
        screen.state = replace(screen.state, alignment="start", steps=((), ()), partners=(), at=0)
        await press(pilot, "T", "t", ")", "(", "m")
        assert screen.state.partners == ()
        assert pilot.app.is_running


@pytest.mark.thorough
async def test_a_pair_made_in_slots_is_shown_in_slots(jax: tuple[TraceReader, TraceReader]) -> None:
    async with compared(*jax) as (screen, pilot):
        await press(pilot, "m")
        first = screen.aligning.slots
        await press(pilot, "T" if screen.state.partners[screen.state.at] == 0 else "t")
        assert screen.aligning.slots is not None
        assert screen.aligning.slots is not first
        assert screen.state.alignment == "sequence"


@pytest.mark.thorough
async def test_every_tab_has_what_it_names(jax: tuple[TraceReader, TraceReader]) -> None:
    async with compared(*jax, size=(80, 24)) as (screen, pilot):
        for key, title in (
            ("4", "Categories"),
            ("6", "Step"),
            ("7", "Launches, gaps"),
            ("8", "Annotations"),
            ("3", "Ops"),
        ):
            await press(pilot, key)
            shown = [pane for pane in screen.differences.tables.values() if pane.display and pane.is_attached]
            assert any(title in pane.caption.render_line(0).text for pane in shown)
            captions = [text for pane in shown if (text := pane.caption.render_line(0).text.strip())]
            assert all("in an average step" in text for text in captions), captions
        await press(pilot, "5")
        drawn = [
            screen.differences.waterfall.chart.render_line(y).text
            for y in range(screen.differences.waterfall.chart.size.height)
        ]
        assert drawn[0].startswith(" baseline step") or drawn[0].startswith("baseline step")
        assert any("candidate step" in line for line in drawn)
        await press(pilot, "9")
        memory = screen.differences.tables["diff-memory"]
        assert "Memory" in memory.caption.render_line(0).text
        body = "".join(memory.table.render_line(y).text for y in range(memory.table.size.height))
        assert "profile_memory" in body


@pytest.mark.thorough
async def test_z_gives_the_screen_to_the_timelines(jax: tuple[TraceReader, TraceReader]) -> None:
    async with compared(*jax, size=(80, 24)) as (screen, pilot):
        assert screen.differences.display
        await press(pilot, "z")
        assert not screen.differences.display
        assert sum(side.region.height for side in screen.sides) == 22
        await press(pilot, "4")
        assert screen.differences.display


@pytest.mark.parametrize(
    ("height", "key", "sight"),
    [
        (10, "3", "tables"),
        *rows_in_full((17, "1", "baseline candidate tables"), (16, "1", "baseline candidate"), (16, "4", "tables"),
                      (16, "5", "tables"), (10, "1", "baseline"), (10, "2", "candidate"), (10, "5", "tables")),
    ],
)  # fmt: skip
async def test_where_there_is_no_room_for_all_what_was_asked_for_is_shown(
    jax: tuple[TraceReader, TraceReader], height: int, key: str, sight: str
) -> None:
    async with compared(*jax, size=(40, height)) as (screen, pilot):
        await press(pilot, key)
        boxes = zip(("baseline", "candidate", "tables"), (*screen.sides, screen.differences), strict=True)
        shown = {name: box for name, box in boxes if box.display}
        assert " ".join(shown) == sight
        assert sum(box.region.height for box in shown.values()) == height - 3
        assert all(box.region.height >= 4 for box in shown.values())
        if key in "34":
            assert screen.focused is not None
            assert screen.differences in screen.focused.ancestors


@pytest.mark.thorough
async def test_tab_leads_to_what_is_out_of_sight_too(jax: tuple[TraceReader, TraceReader]) -> None:
    async with compared(*jax, size=(40, 10)) as (screen, pilot):
        seen = []
        for _ in range(5):
            boxes = (*screen.sides, screen.differences)
            seen.append(next(number for number, box in enumerate(boxes) if box.has_focus_within))
            assert [box.display for box in boxes] == [number == seen[-1] for number in range(3)]
            await press(pilot, "tab")
        assert seen == [2, 0, 1, 2, 0], "the tables say most in little room"
        await press(pilot, "shift+tab", "S")
        assert screen.sides[1].has_focus_within or screen.sides[0].has_focus_within
        assert [side.display for side in screen.sides] == [side.has_focus_within for side in screen.sides]


@pytest.mark.parametrize("size", in_full((120, 40), (40, 10)))
async def test_a_slash_filters_the_table_that_is_shown(
    jax: tuple[TraceReader, TraceReader], size: tuple[int, int]
) -> None:
    async with compared(*jax, size=size) as (screen, pilot):
        await press(pilot, "1", "/", *"all-reduce", "enter")
        table = screen.differences.tables["diff-ops"].table
        assert table.filter == "all-reduce"
        assert screen.focused is table
        assert 0 < table.passing_row_count < 129
        await press(pilot, "5", "/")
        assert "a chart has no rows to filter" in screen.key_bar.message


@pytest.mark.parametrize("keys", in_full("3 Y", "m m Y"))
async def test_what_is_copied_prints_what_is_compared(
    keys: str, jax: tuple[TraceReader, TraceReader], samples: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with compared(*jax) as (screen, pilot):
        for side in screen.sides:
            side.command_words = str(samples / side.opening.name)
        screen.command_words = ("--align", "start")
        await press(pilot, *keys.split())
        assert "copied: tracehound diff" in screen.key_bar.render_line(0).text
        assert screen.key_bar.message == f"copied: {pilot.app.clipboard}"
        ops = screen.differences.tables["diff-ops"].table.result
        pair = screen.state.aligned_pair[0] if "3" not in keys else None
        assert ops is not None
    program, command, baseline, candidate, *options = shlex.split(pilot.app.clipboard)
    assert (program, command) == ("tracehound", "diff")
    assert options[:2] == ["--align", "start"]
    assert options[2:] == ([] if pair is None else ["--step", str(pair.number)])
    assert ("b128" in candidate) == ("S" in keys)
    assert main([command, baseline, candidate, *options, "--format", "json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    found = printed["results"]["diff-ops"]
    if pair is None:
        assert [row["name"] for row in found["rows"]] == ops.table["name"].to_list()
        assert [row["change"] for row in found["rows"]] == pytest.approx(ops.table["change"].to_list())


@pytest.mark.thorough
async def test_steps_of_other_numbers_are_no_step_of_a_command(jax: tuple[TraceReader, TraceReader]) -> None:
    async with compared(*jax) as (screen, pilot):
        await press(pilot, "T" if screen.state.partners[screen.state.at] == 0 else "t", "Y")
        assert "--step" not in pilot.app.clipboard


@pytest.mark.thorough
async def test_a_profile_of_pytorch_against_one_of_xla_says_what_cannot_be_compared(samples: Path) -> None:
    openings = [read_once(samples / name) for name in ("torch_stacks", "jax_cpu8_b128")]
    async with compared(*openings) as (screen, pilot):
        caption = screen.differences.tables["diff-ops"].caption.render_line(0).text
        assert "PyTorch against XLA: ops share no names" in caption
        await press(pilot, "m", "m", "m", "3", "enter", "S", "5")
        assert screen.comparison is not None


@pytest.mark.thorough
async def test_a_run_whose_files_are_hardly_one_says_so_above_the_ops(samples: Path, tmp_path: Path) -> None:
    (sample,) = (samples / "torch_stacks").glob("*.json.gz")
    document = json.loads(gzip.decompress(sample.read_bytes()))
    process = next(event["pid"] for event in document["traceEvents"] if event.get("cat") == "cpu_op")
    (runs := tmp_path / "runs").mkdir()
    for hour in (0, 1):
        document |= {"distributedInfo": None, "baseTimeNanoseconds": (500_000 + hour) * HOUR}
        text = json.dumps(document).replace(f'"pid": {process},', f'"pid": {process + hour},')
        (runs / f"{'ab'[hour]}.pt.trace.json").write_text(text)
    async with compared(open_trace_files([runs]), open_trace_files([sample])) as (screen, _):
        caption = " ".join(screen.differences.tables["diff-ops"].caption.text.heading)
        assert "baseline: probably not one run: the files do not overlap in time" in caption
        assert "candidate: probably" not in caption


@pytest.mark.thorough
async def test_a_run_against_itself_differs_in_nothing(samples: Path) -> None:
    openings = [open_trace_files([samples / "torch_ddp_gloo"]) for _ in range(2)]
    async with compared(*openings) as (screen, pilot):
        await press(pilot, "m")
        assert screen.aligning.slots is not None
        assert screen.aligning.slots.counts[1:] == (0, 0, 0, 0)
        assert "the same" in screen.key_bar.message


@pytest.mark.thorough
async def test_help_has_the_keys_of_this_screen_alone(jax: tuple[TraceReader, TraceReader]) -> None:
    async with compared(*jax) as (screen, pilot):
        await press(pilot, "?")
        assert pilot.app.screen is not screen
        await press(pilot, "escape")
        assert pilot.app.screen is screen
        ids = {key.id for key in screen.keys}
        assert {"comparison.align", "quit", "timeline.zoom_in", "table.filter"} <= ids
        assert not {"search", "timeline.cause", "details.find"} & ids


@pytest.mark.thorough
async def test_no_key_of_any_pane_does_harm(samples: Path) -> None:
    openings = [open_trace_files([samples / "torch_stacks"]) for _ in range(2)]
    async with compared(*openings, size=(80, 24)) as (screen, pilot):
        for pane, group in (("1", "timeline"), ("2", "lanes"), ("3", "table")):
            for alignment in ("m", ""):
                for key in KEYS:
                    if key.group == group and not (key.asks and key.group != "timeline"):
                        await press(pilot, pane, key.keys[0])
                        while len(pilot.app.screen_stack) > 1:
                            await press(pilot, "escape")
                await press(pilot, *alignment)
        assert screen.comparison is not None


@pytest.mark.thorough
async def test_the_palette_offers_what_the_keys_do(jax: tuple[TraceReader, TraceReader]) -> None:
    async with compared(*jax) as (screen, pilot):
        offered = {name: act for name, _, act in ComparisonCommands(screen)._commands()}
        assert "Swap baseline and candidate (S)" in offered
        assert "Candidate: Zoom in at the focus (w +)" in offered
        assert not any("SQL" in name for name in offered)
        await offered["Swap baseline and candidate (S)"]()  # type: ignore[misc]
        await settled(pilot)
        assert "- baseline jax_cpu8_b4096" in lines(screen, 0)[0]


@pytest.mark.thorough
async def test_who_leaves_sees_no_other_tab(jax: tuple[TraceReader, TraceReader]) -> None:
    async with compared(*jax) as (screen, pilot):
        pilot.app.exit()
        screen.action_show("parts")
        assert not screen.differences.tables["diff"].is_attached


@pytest.mark.thorough
async def test_who_leaves_before_the_tables_are_there_leaves(
    jax: tuple[TraceReader, TraceReader], monkeypatch: pytest.MonkeyPatch
) -> None:
    compose = ComparisonPanes.compose

    def leaving(differences: ComparisonPanes) -> ComposeResult:
        differences.app.exit()
        return compose(differences)

    monkeypatch.setattr(ComparisonPanes, "compose", leaving)
    async with compared(*jax) as (_, pilot):
        assert pilot.app.return_code == 0


@pytest.mark.thorough
def test_in_a_terminal_it_draws_both_and_q_ends_at_once(samples: Path) -> None:
    arguments = (str(samples / "jax_cpu8_b128"), "--diff", str(samples / "jax_cpu8_b4096"), "--no-cache")
    with Terminal(*arguments) as terminal:
        terminal.wait_for("aligned: by step", "- baseline", "+ candidate", "XLA Ops", "all-reduce")
        terminal.press("m")
        terminal.wait_for("aligned: matched sequence", "colors by difference")
        terminal.press("5")
        terminal.wait_for("candidate step")
        terminal.press("q")
        assert terminal.ended() == 0


@pytest.mark.thorough
def test_in_a_terminal_q_ends_while_both_are_read(samples: Path) -> None:
    with Terminal(str(samples / "jax_cpu8_b128"), "--diff", str(samples / "torch_stacks"), "--no-cache") as terminal:
        terminal.wait_for("comparison")
        terminal.press("q")
        assert terminal.ended() == 0


@pytest.mark.thorough
def test_a_baseline_cannot_be_drawn(samples: Path, tmp_path: Path) -> None:
    baseline = tmp_path / "base.json"
    baseline.write_text('{"schema":"tracehound.profile/1","name":"x","ranks":1,"what":"steps","of":"work",'
                    '"steps":{"step":[],"ranks":[],"duration":[],"compute":[],"communication":[],"copy":[],"idle":[]},'
                    '"ops":{"step":[],"name":[],"category":[],"module":[],"operator":[],"scope":[],"signature":[],'
                    '"family":[],"count":[],"time":[],"exposed":[]}}')  # fmt: skip
    with Terminal(str(samples / "torch_stacks"), "--diff", str(baseline)) as terminal:
        terminal.wait_for("is a baseline: it has no events to draw")
        assert terminal.ended() == 2


@pytest.mark.parametrize("size", in_full((80, 24), (200, 50)))
async def test_the_hlo_of_an_op_is_a_key_away_and_leads_to_its_executions(
    jax: tuple[TraceReader, TraceReader], size: tuple[int, int]
) -> None:
    async with compared(*jax, size=size) as (screen, pilot):
        await press(pilot, "3", "%")
        page = pilot.app.screen
        assert isinstance(page, HloScreen)
        top = page._header.render_line(0).text
        assert "%all-reduce.11" in top
        assert top.rstrip().endswith("baseline")
        await press(pilot, "n")
        assert pilot.app.screen is screen
        event, trace = screen.state.views[0].event, screen.sides[0].trace
        assert event is not None
        assert trace is not None
        assert str(trace.event(event)["name"]).startswith("all-reduce")
        assert screen.focused is screen.sides[0].timeline
        await press(pilot, "%", "escape")
        assert pilot.app.screen is screen, "the page of the selected event was there"


@pytest.mark.thorough
async def test_the_hlo_of_an_added_op_is_that_of_the_other_run(jax: tuple[TraceReader, TraceReader]) -> None:
    async with compared(*jax) as (screen, pilot):
        await press(pilot, "3", "f", *"verdict = added", "enter", "%")
        page = pilot.app.screen
        assert isinstance(page, HloScreen)
        assert page._header.render_line(0).text.rstrip().endswith("candidate")
        await press(pilot, "escape", "6", "%")
        assert pilot.app.screen is screen
        assert "no op here" in screen.key_bar.render_line(0).text


@pytest.mark.thorough
async def test_an_op_without_hlo_says_so(samples: Path) -> None:
    async with compared(*(read_once(samples / name) for name in ("torch_stacks", "torch_ddp_gloo"))) as both:
        screen, pilot = both
        await press(pilot, "3", "%")
        assert pilot.app.screen is screen
        assert "no HLO was recorded of this op" in screen.key_bar.render_line(0).text
