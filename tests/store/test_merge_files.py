"""Placing parts: clocks, numbers of ranks, ids."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
from msgspec.structs import replace

from building import US, Building, stream, thread
from tracehound.analysis import get_analysis, run_analysis
from tracehound.draw.notes import note_text, render_note_columns
from tracehound.formats.assembly.counter_samples import FileCounters
from tracehound.model.file_facts import FileFacts
from tracehound.model.notes import Note
from tracehound.model.trace import COUNTERS, EVENTS, LANES, RANKS, STEPS, FileFrames
from tracehound.store import merge_file_frames
from tracehound.store.rank_numbers import number_ranks


def part(name: str, first: int, wall_ns: int | None, claim: int | None = None) -> FileFrames:
    b = Building(path=Path(name), wall_ns=wall_ns, claim=claim)
    b.event(thread(), "launch", first, first + 5, "runtime", correlation=1)
    b.event(stream(), "gemm", first + 10, first + 40, correlation=1)
    b.event(thread(), "ProfilerStep#4", first, first + 50, "step", step=4)
    return b.part()


def test_one_clock_for_files_that_overlap() -> None:
    """The wall clock of the second file begins 20 us after that of the first."""
    trace = merge_file_frames("t", [part("rank0.json", 100, 1_000_000, 0), part("rank1.json", 100, 1_020_000, 1)])
    starts = trace.events().filter(pl.col("kind") == "kernel").sort("rank").select("rank", "start").collect()
    assert starts.rows() == [(0, 10 * US), (1, 30 * US)]
    assert trace.origin_ns == 1_100_000
    assert trace.span == (0, 70 * US)


def test_files_far_apart_are_drawn_from_their_own_start() -> None:
    trace = merge_file_frames("t", [part("a.json", 100, 0), part("b.json", 100, 3_600_000_000_000)])
    assert trace.span == (0, 50 * US)
    assert trace.origin_ns is None
    assert any("do not overlap" in note_text(note) for note in trace.notes)


def test_no_wall_clock() -> None:
    trace = merge_file_frames("t", [part("a.json", 100, None, 0), part("b.json", 900, 5, 1)])
    assert trace.span == (0, 50 * US)
    assert any("wall clock" in note_text(note) for note in trace.notes)


def test_a_file_without_events_has_no_say_in_the_clock() -> None:
    nothing = Building(path=Path("rank2.json"), claim=2)
    parts = [part("rank0.json", 100, 1_000_000, 0), nothing.part(), part("rank1.json", 100, 1_020_000, 1)]
    trace = merge_file_frames("t", parts)
    assert trace.origin_ns == 1_100_000
    assert trace.span == (0, 70 * US)
    assert not any("wall clock" in note_text(note) for note in trace.notes)
    assert merge_file_frames("t", [nothing.part()]).span == (0, 0)


def counted(name: str, first: int, wall_ns: int | None, *samples: int) -> FileFrames:
    """A part with a counter that has samples at these times, us."""
    frame = pl.DataFrame({"lane": 0, "time": [at * US for at in samples], "value": 1.0}, schema=COUNTERS)
    lane = {"host": 0, "rank": None, "role": "counter", "name": "c", "process": "", "order": 0, "unit": ""}
    b = Building(path=Path(name), wall_ns=wall_ns, counters=FileCounters([lane], frame))
    b.event(thread(), "launch", first, first + 5, "runtime")
    return b.part()


def test_the_time_of_a_trace_is_that_of_its_samples_too() -> None:
    """The wall clock of the first file is that of its first sample, 3 us before its first event."""
    one = merge_file_frames("t", [counted("a.json", 100, 1_000_000, 97, 109)])
    assert (one.span, one.origin_ns) == ((0, 12 * US), 1_097_000)
    assert one.events().select("start", "end").collect().rows() == [(3 * US, 8 * US)]
    assert one.samples(one.lanes.filter(role="counter")["lane"][0])["time"].to_list() == [0, 12 * US]
    inside = merge_file_frames("t", [counted("a.json", 100, 1_000_000, 101, 102)])
    assert (inside.span, inside.origin_ns) == ((0, 5 * US), 1_100_000)


def test_files_without_one_clock_begin_together_with_their_first_events() -> None:
    trace = merge_file_frames("t", [counted("a.json", 100, None, 97), counted("b.json", 900, None, 890, 950)])
    assert trace.events().select("start").collect().to_series().to_list() == [10 * US, 10 * US]
    assert trace.span == (0, 60 * US)


def test_ids_lead_from_any_event_to_its_launch() -> None:
    trace = merge_file_frames("t", [part("rank0.json", 100, 1_000_000, 0), part("rank1.json", 100, 1_020_000, 1)])
    for event in trace.events().filter(pl.col("kind") == "kernel").collect().rows(named=True):
        assert trace.event(event["id"]) == event
        launch = trace.event(event["launch"])
        assert (launch["name"], launch["rank"]) == ("launch", None)
        assert trace.lane(launch["lane"])["name"].to_list() == ["ProfilerStep#4", "launch"]
        assert event["step"] == 4


def test_schemas() -> None:
    for trace in (merge_file_frames("t", []), merge_file_frames("t", [part("rank0.json", 100, None)])):
        assert trace.events().collect_schema() == EVENTS
        assert trace.lanes.schema == LANES
        assert trace.ranks.schema == RANKS
        assert trace.steps.schema == STEPS


def numbers(*names: str, claims: tuple[int | None, ...] = ()) -> list[int]:
    claimed = claims or (None,) * len(names)
    parts = [part(name, 0, 0, claim) for name, claim in zip(names, claimed, strict=True)]
    frames = [
        frame.filter(pl.col("kind") == "kernel").collect()["rank"][0] for frame in merge_file_frames("t", parts).frames
    ]
    return [int(rank) for rank in frames]


def test_ranks_from_names() -> None:
    assert numbers("worker3.json", "worker1.json") == [3, 1]
    assert numbers("rank-3.Apr_03.1102.pt.trace.json.gz", "rank-10.Apr_03.77.pt.trace.json.gz") == [3, 10]
    assert numbers("trace_1.json", "trace_0.json") == [1, 0]
    assert numbers("r1/x.json", "r0/x.json") == [1, 0]
    assert numbers("plugins/profile/r1/x.json") == [0]
    assert numbers("rank1/plugins/profile/r7/x.json", "rank0/plugins/profile/r8/x.json") == [1, 0]


def test_of_several_numbers_in_names_that_of_the_rank_counts() -> None:
    assert numbers("gpu00_rank10.json", "gpu00_rank2.json") == [10, 2]
    assert numbers("rank1_worker7.json", "rank0_worker7.json") == [1, 0]
    assert numbers("worker3_gpu0.json", "worker3_gpu1.json") == [0, 1]
    assert numbers("old_rank7_rank3.json", "old_rank7_rank2.json") == [3, 2]
    assert numbers("rank1_of_rank2.json", "rank0_of_rank2.json") == [1, 0]
    assert numbers("Rank2.json", "gpu1_worker5.json") == [2, 5]


def test_names_that_do_not_tell_are_counted_as_people_count() -> None:
    """As a shell and a folder give them, host 10 is before host 2."""
    names = sorted(f"job.node{number}.json" for number in range(12))
    assert numbers(*names) == [int(re.findall(r"\d+", name)[0]) for name in names]
    trace = merge_file_frames("t", [part(name, 0, 0) for name in names])
    (note,) = (note for note in trace.notes if "records no rank" in note_text(note))
    assert note_text(note).endswith("the file records no rank: taken from the order of the file names")


def test_process_ids_are_no_ranks() -> None:
    assert numbers("host_5724.1795.pt.trace.json", "host_5725.1795.pt.trace.json") == [0, 1]
    assert numbers("container_1.1795.pt.trace.json") == [0]


def test_recorded_ranks_win() -> None:
    assert numbers("rank7.json", "rank8.json", claims=(5, None)) == [5, 8]
    assert numbers("a.json", "b.json", "c.json", claims=(1, 1, None)) == [1, 2, 0]


def test_a_claim_beyond_all_jobs_moves_no_other() -> None:
    assert numbers("a.json", "b.json", claims=(2**31 - 1, 2**31 - 1)) == [2**31 - 1, 0]


def test_files_that_claim_the_rank_of_another_stand_for_no_rank_of_the_job() -> None:
    files = [process(f"{name}.json", 5, claim=0, world=8) for name in "abcd"]
    assert told(*files)[0] == [(0, False), (8, True), (9, True), (10, True)]
    (note,) = number_ranks([*files, process("e.json", 5, claim=3, world=8)]).notes
    assert (note.count, note.location_text) == (3, "b.json")
    assert note_text(note) == "4 files claim rank 0: all but the first are renumbered, as 8-10"
    said = (
        render_note_columns(run_analysis(get_analysis("health"), merge_file_frames("t", files)))
        .table.select("count", "what")
        .rows()
    )
    assert (7, "the job has 8 ranks; missing here: ranks 1-7") in said


def test_files_that_claim_one_rank_have_the_numbers_of_their_names() -> None:
    ranks, notes = told(*(process(f"rank{number}.json", 5, claim=0) for number in range(1, 5)))
    assert ranks == [(1, True), (2, True), (3, True), (4, True)]
    assert notes == ["4 files claim rank 0"]
    claims = (0, 0, 2, 0, None)
    files = [process(f"rank{number}.json", 5, claim=claim, world=8) for number, claim in enumerate(claims)]
    assert told(*files)[0] == [(0, False), (1, True), (2, False), (3, True), (4, True)]
    note, _ = number_ranks(files).notes
    assert note_text(note) == "3 files claim rank 0: numbered by file name, as 0-1, 3"
    assert (note.count, note.location_text) == (3, "rank0.json")


def test_names_do_not_tell_of_files_that_claim_one_rank_what_another_file_claims() -> None:
    files = [process(f"rank{number}.json", 5, claim=claim) for number, claim in enumerate((1, 1, 0))]
    assert told(*files)[0] == [(1, False), (3, True), (0, False)]


def process(name: str, *works: int, claim: int | None = None, world: int | None = None) -> FileFrames:
    """A file of a process that gives each of some devices so much to do; `claim` is the rank that it records."""
    b = Building()
    for device, count in enumerate(works):
        for at in range(count):
            b.event(stream(device), "k", 10 * at, 10 * at + 1)
    made = b.part()
    main = max(range(len(works)), key=lambda device: works[device])
    claimed = [claim if device == main else None for device in range(len(works))]
    ranks = made.ranks.with_columns(pl.Series("rank", claimed, pl.Int32))
    return replace(made, path=Path(name), facts=FileFacts(world_size=world)).with_frames(ranks=ranks)


def told(*parts: FileFrames) -> tuple[list[tuple[int, bool]], list[str]]:
    """Each rank in the order of the files and their devices, and whether it is inferred; and what is said of ranks."""
    found = number_ranks(parts)
    ranks = [pair for each in zip(found.numbers, found.inferred, strict=True) for pair in zip(*each, strict=True)]
    return ranks, [note_text(note).partition(":")[0] for note in found.notes]


def test_a_file_may_record_the_rank_of_each_device() -> None:
    def of(name: str, *ranks: int) -> FileFrames:
        labeled = [{"rank": rank, "host": 0, "label": f"TPU:{rank}"} for rank in ranks]
        return replace(part(name, 100, 0), format="chrome").with_frames(ranks=pl.DataFrame(labeled, schema=RANKS))

    numbering = number_ranks([of("a.json", 3, 5), of("b.json", 5, 6), of("c.json", 4)])
    assert numbering.numbers == ((3, 5), (7, 6), (4,))
    (note,) = numbering.notes
    assert note_text(note) == "2 files claim rank 5: all but the first are renumbered, as 7"


def test_devices_of_one_process_are_ranks() -> None:
    assert told(process("a.json", 1, 1)) == ([(0, True), (1, True)], ["several devices and no rank recorded"])
    several = told(process("worker0.json", 9, 8), process("worker1.json", 8, 9))
    assert several[0] == [(0, True), (1, True), (2, True), (3, True)]


def test_files_of_unlike_devices_need_not_be_of_one_job() -> None:
    def of(name: str, model: str, claim: int | None = None) -> FileFrames:
        made = process(name, 1, claim=claim)
        return made.with_frames(ranks=made.ranks.with_columns(model=pl.lit(model)))

    unlike = "the files are of different devices (H100, MI300X), and not all name their job"
    assert unlike in told(of("a.json", "H100"), of("b.json", "MI300X"))[1]
    assert unlike not in told(of("a.json", "H100"), of("b.json", "H100"))[1]
    assert unlike not in told(of("a.json", "H100", 0), of("b.json", "MI300X", 1))[1]


def test_a_device_that_a_process_only_touches_takes_no_rank_of_another() -> None:
    """Four processes, of which the third sets memory of the first device."""
    files = [process(f"{rank}.json", 5, claim=rank, world=4) for rank in range(4)]
    files[2] = process("2.json", 1, 5, claim=2, world=4)
    ranks, notes = told(*files)
    assert ranks == [(0, False), (1, False), (4, True), (2, False), (3, False)]
    assert notes == ["several devices in a file of one rank"]
    assert told(process("x.json", 1, 5, claim=5, world=8))[0] == [(8, True), (5, False)]


def test_a_rank_in_a_name_is_that_of_the_device_that_works() -> None:
    ranks, notes = told(process("rank1.json", 1, 100), process("rank0.json", 100))
    assert ranks == [(2, True), (1, True), (0, True)]
    assert notes == ["the file records no rank", "several devices in a file of one rank"]


def test_notes_name_files_in_one_way_whoever_makes_them() -> None:
    first, second = (part(f"/runs/{name}.json", 0, None) for name in "ab")
    note = Note("repaired", "event_cut_off", where="byte 9")
    notes = merge_file_frames("t", [replace(first, notes=(note,)), second]).notes
    assert {note.file for note in notes} == {"a.json"}
    assert len(notes) > 1


def test_notes_tell_files_of_one_name_apart() -> None:
    paths = ["/runs/a/0/trace.json", "/runs/b/0/trace.json", "/runs/b/1/trace.json", "/runs/b/other.json"]
    cut = [Note("repaired", "event_cut_off", where=where) for where in ("byte 9", "byte 9", "", "")]
    parts = [replace(part(path, 0, 0), notes=(note,)) for path, note in zip(paths, cut, strict=True)]
    found = [note.location_text for note in merge_file_frames("t", parts).notes if note.code == "event_cut_off"]
    assert found == ["a/0/trace.json, byte 9", "b/0/trace.json, byte 9", "1/trace.json", "other.json"]
