"""What makes up a trace: files, folders, log folders, families of subfolders."""

from __future__ import annotations

import errno
import gzip
import json
import os
from pathlib import Path

import pytest

from tracehound.analysis import ANALYSES
from tracehound.analysis import run_analysis as answer
from tracehound.draw.notes import note_text
from tracehound.errors import TracehoundError
from tracehound.store import load_trace, open_trace_files
from tracehound.store.find_files import find_trace_files
from xspaces import Event, Line, Plane, space


def kineto(path: Path, rank: int = 0) -> Path:
    """A file with one kernel."""
    event = {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 10, "dur": 5,
             "args": {"device": 0, "stream": 7, "correlation": 1}}  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {"schemaVersion": 1, "distributedInfo": {"rank": rank, "world_size": 4}, "traceEvents": [event]}
    data = json.dumps(document).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def names(*paths: Path) -> list[str]:
    return [file.path.name for file in find_trace_files(list(paths)).files]


def test_a_folder_of_ranks(tmp_path: Path) -> None:
    for rank in (2, 0, 1):
        kineto(tmp_path / f"rank{rank}.pt.trace.json.gz", rank)
    (tmp_path / "notes.txt").write_text("not a trace")
    (tmp_path / "config.json").write_text('{"lr": 0.1}')
    assert names(tmp_path) == [f"rank{n}.pt.trace.json.gz" for n in (0, 1, 2)]
    found = find_trace_files([tmp_path])
    assert [note.level for note in found.notes] == ["dropped"]
    assert found.notes[0].location_text == str(tmp_path / "config.json")
    trace = load_trace(open_trace_files([tmp_path]))
    assert trace.ranks["rank"].to_list() == [0, 1, 2]
    assert trace.name == tmp_path.name


def test_a_folder_is_in_the_order_in_which_people_count(tmp_path: Path) -> None:
    for number in range(12):
        kineto(tmp_path / f"rank{number}.json", number)
    assert names(tmp_path) == [f"rank{number}.json" for number in range(12)]
    for number in range(12):
        kineto(tmp_path / "jobs" / f"r{number}" / "trace.json", number)
    assert [file.path.parent.name for file in find_trace_files([tmp_path / "jobs"]).files] == [
        f"r{number}" for number in range(12)
    ]


def test_a_gzip_in_a_folder_that_was_cut_at_its_start_is_told_of_with_the_place(tmp_path: Path) -> None:
    kineto(tmp_path / "rank0.json.gz")
    cut = kineto(tmp_path / "rank1.json.gz", 1)
    cut.write_bytes(cut.read_bytes()[:18])
    (note,) = find_trace_files([tmp_path]).notes
    assert (note.level, note.location_text) == ("dropped", f"{cut}, byte 18")
    assert note_text(note).startswith("gzip ends early")


def test_several_paths_and_the_same_twice(tmp_path: Path) -> None:
    a, b = kineto(tmp_path / "a.json"), kineto(tmp_path / "b.json", 1)
    assert names(a, b, a, tmp_path) == ["a.json", "b.json"]


def test_other_ways_to_a_file_are_that_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = kineto(tmp_path / "here" / "one.json")
    other = kineto(tmp_path / "there" / "one.json", 1)
    (tmp_path / "here" / "linked").symlink_to(tmp_path / "there")
    monkeypatch.chdir(tmp_path / "here")
    ways = [one, Path("one.json"), Path("./one.json"), Path("../here/one.json"), Path("linked/../here/one.json")]
    assert len(find_trace_files(ways).files) == 1
    assert [file.path.resolve() for file in find_trace_files([one, Path("linked/one.json"), other]).files] == [
        one,
        other,
    ]
    through = kineto(tmp_path / "one.json", 2)
    behind = Path("linked/../one.json")
    assert behind.resolve() == through, "which is not the one beside the link"
    assert len(find_trace_files([one, behind]).files) == 2


def test_a_link_to_itself_is_no_trace(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(TracehoundError, match="symbolic links"):
        find_trace_files([tmp_path / "loop"])
    kineto(tmp_path / "one.json")
    assert names(tmp_path) == ["one.json"]


def test_links_to_a_file_are_files_of_their_own(tmp_path: Path) -> None:
    real = kineto(tmp_path / "real" / "one.json")
    for name in ("a.json", "b.json"):
        (tmp_path / name).symlink_to(real)
    (tmp_path / "c.json").hardlink_to(real)
    assert names(tmp_path) == ["a.json", "b.json", "c.json"]
    assert names(tmp_path / "a.json", tmp_path / "b.json", real) == ["a.json", "b.json", "one.json"]


def test_a_family_of_subfolders_is_one_trace(tmp_path: Path) -> None:
    for rank in (0, 1):
        kineto(tmp_path / f"rank_{rank}" / "trace.json", rank)
    assert len(names(tmp_path)) == 2


def test_different_traces_are_not_thrown_together(tmp_path: Path) -> None:
    kineto(tmp_path / "baseline" / "trace.json")
    kineto(tmp_path / "candidate" / "trace.json")
    with pytest.raises(TracehoundError, match="2 different traces; open one of baseline, candidate"):
        find_trace_files([tmp_path])


def test_of_many_different_traces_some_are_named_and_how_many_more_there_are(tmp_path: Path) -> None:
    for run in "abcdefgh":
        kineto(tmp_path / run / "trace.json")
    with pytest.raises(TracehoundError, match="8 different traces; open one of a, b, c, d, e, f and 2 more"):
        find_trace_files([tmp_path])


def test_different_traces_further_down_are_told_of(tmp_path: Path) -> None:
    for run in ("baseline", "candidate"):
        kineto(tmp_path / "jobs" / "old" / run / "trace.json")
    with pytest.raises(TracehoundError, match="old: holds 2 different traces; open one of baseline, candidate"):
        find_trace_files([tmp_path])
    kineto(tmp_path / "jobs" / "new" / "trace.json")
    with pytest.raises(TracehoundError, match="jobs: holds 2 different traces; open one of new, old"):
        find_trace_files([tmp_path])


def test_a_log_folder_opens_its_newest_run(tmp_path: Path) -> None:
    for run in ("2026_01_01_00_00_00", "2026_02_01_00_00_00"):
        kineto(tmp_path / "plugins" / "profile" / run / "host.json")
    for opened in (tmp_path, tmp_path / "plugins", tmp_path / "plugins" / "profile"):
        assert find_trace_files([opened]).files[0].path.parent.name == "2026_02_01_00_00_00"
    assert find_trace_files([tmp_path], "2026_01_01_00_00_00").files[0].path.parent.name == "2026_01_01_00_00_00"
    with pytest.raises(TracehoundError, match="no run 'x'; there are 2026_02_01_00_00_00, 2026_01_01_00_00_00"):
        find_trace_files([tmp_path], "x")


def test_of_the_recordings_of_a_process_the_newest_is_opened(tmp_path: Path) -> None:
    """As a schedule that repeats leaves them, with a handler for TensorBoard."""
    for worker in ("vm_7", "vm_8"):
        for number in range(3):
            kineto(tmp_path / f"{worker}.179565901715429821{number}.pt.trace.json.gz", int(worker[-1]))
    newest = [f"{worker}.1795659017154298212.pt.trace.json.gz" for worker in ("vm_7", "vm_8")]
    assert names(tmp_path) == newest
    (note,) = find_trace_files([tmp_path]).notes
    assert note_text(note) == (
        "older recordings of the same processes not opened (1795659017154298210, 1795659017154298211; opened:"
        " 1795659017154298212): --run NAME opens one"
    )
    assert (note.level, note.count, note.location_text) == (
        "info",
        4,
        str(tmp_path / newest[1].replace("212.pt", "211.pt")),
    )
    assert len(names(*tmp_path.iterdir())) == 6
    kineto(tmp_path / "rank0.pt.trace.json")
    assert names(tmp_path) == ["rank0.pt.trace.json", *newest]


@pytest.mark.parametrize(
    ("recorded", "opened", "left"),
    [
        ({7: (10, 20), 8: (11, 21)}, (20, 21), [("info", 2)]),
        ({7: (10, 20), 8: (11,)}, (10, 11), [("inferred", 1)]),
        ({7: (20, 30), 8: (19,)}, (20, 19), [("inferred", 1)]),
        ({7: (10, 20, 30), 8: (11, 31), 9: (32,)}, (30, 31, 32), [("info", 3)]),
        ({7: (10, 20, 30), 8: (11, 19), 9: (12, 21)}, (20, 19, 21), [("info", 3), ("inferred", 1)]),
        ({7: (10, 20), 8: (70, 80)}, (20, 80), [("info", 2)]),
        ({7: (10, 20), 8: (80,)}, (20, 80), [("info", 1)]),
    ],
)
def test_no_two_ranks_are_of_different_recordings(
    tmp_path: Path, recorded: dict[int, tuple[int, ...]], opened: tuple[int, ...], left: list[tuple[str, int]]
) -> None:
    for worker, times in recorded.items():
        for time in times:
            kineto(tmp_path / f"vm_{worker}.17956590171542982{time}.pt.trace.json", worker)
    assert [int(name.split(".")[1][-2:]) for name in names(tmp_path)] == list(opened)
    assert [(note.level, note.count) for note in find_trace_files([tmp_path]).notes] == left


def test_ranks_whose_files_name_one_worker_are_all_opened(tmp_path: Path) -> None:
    for rank in range(3):
        kineto(tmp_path / f"worker0.179565901715429821{rank}.pt.trace.json", rank)
    assert len(names(tmp_path)) == 3


@pytest.mark.parametrize("numbered", ["rank-0.Apr_03.1102.pt.trace.json", "rank-0.1795659017154298210.json"])
def test_a_number_that_is_no_time_makes_no_recording_an_older_one(tmp_path: Path, numbered: str) -> None:
    kineto(tmp_path / numbered)
    kineto(tmp_path / numbered.replace("1102", "1103").replace("210.", "211."))
    assert len(names(tmp_path)) == 2


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(TracehoundError, match="no such file"):
        find_trace_files([tmp_path / "absent.json"])
    with pytest.raises(TracehoundError, match="no trace in this folder"):
        find_trace_files([tmp_path])
    with pytest.raises(TracehoundError, match="file name too long"):
        find_trace_files([tmp_path / ("x" * 5000)])


def test_folders_that_link_to_each_other_are_looked_into_once(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        for other in ("a", "b", "c", "."):
            (tmp_path / name / f"to{other}").symlink_to(tmp_path / other)
    with pytest.raises(TracehoundError, match="no trace in this folder"):
        find_trace_files([tmp_path])
    kineto(tmp_path / "c" / "trace.json")
    assert names(tmp_path) == ["trace.json"]


def test_a_whole_disk_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracehound.store.find_files.MAX_FOLDERS", 5)
    kineto(tmp_path / "one" / "trace.json")
    for number in range(9):
        (tmp_path / "other" / f"{number}").mkdir(parents=True)
    with pytest.raises(TracehoundError, match="holds more than 5 folders; name that of the trace") as raised:
        find_trace_files([tmp_path])
    assert raised.value.path == tmp_path, "that which was named, wherever the search ended"


def test_a_disk_of_other_files_is_not_searched_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracehound.store.find_files.MAX_NON_TRACES", 5)
    for number in range(3):
        folder = tmp_path / f"folder{number}"
        folder.mkdir()
        for file in range(2):
            (folder / f"{file}.txt").write_text("no trace")
            (folder / f"{file}.empty").touch()
    with pytest.raises(TracehoundError, match="holds more than 5 files that are no traces"):
        find_trace_files([tmp_path])
    (tmp_path / "folder2" / "1.txt").unlink()
    with pytest.raises(TracehoundError, match="no trace in this folder"):
        find_trace_files([tmp_path])


def test_a_name_that_is_no_text_is_shown(tmp_path: Path) -> None:
    path = kineto(tmp_path / os.fsdecode(b"run\xff.json"))
    path.write_bytes(path.read_bytes()[:-2])
    trace = load_trace(open_trace_files([path]))
    health = next(analysis for analysis in ANALYSES if analysis.name == "health")
    assert any("run\ufffd.json" in where for where in answer(health, trace).table["where"])


def test_one_bad_file_of_many_is_noted(tmp_path: Path) -> None:
    kineto(tmp_path / "rank0.json")
    (tmp_path / "rank1.json").write_text("")
    trace = load_trace(open_trace_files([tmp_path]))
    assert trace.ranks.height == 1
    assert ("the file is empty", str(tmp_path / "rank1.json")) in [
        (note_text(note), note.location_text) for note in trace.notes
    ]


def test_a_named_file_that_is_no_trace_is_noted_where_others_are_there(tmp_path: Path) -> None:
    good, empty, other = kineto(tmp_path / "rank1.json", 1), tmp_path / "rank0.json", tmp_path / "config.json"
    (tmp_path / "bare").mkdir()
    empty.write_text("")
    other.write_text('{"lr": 0.1}')
    found = find_trace_files([empty, good, other, tmp_path / "bare"])
    assert [file.path for file in found.files] == [good]
    notes = [(note.level, note.location_text) for note in found.notes]
    assert notes == [("dropped", str(path)) for path in (empty, other, tmp_path / "bare")]
    assert open_trace_files([empty, good]).name == "rank1.json"
    for path in (tmp_path / "absent.json", tmp_path / "absent" / "rank0.json"):
        with pytest.raises(TracehoundError, match="no such file"):
            find_trace_files([good, path])
    with pytest.raises(TracehoundError, match="the file is empty"):
        find_trace_files([empty, other])


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("memory_timeline.json", b"[[1, 2, 3], [[0, 1], [0, 2], [0, 3]]]"),
        ("execution_trace.json", b'{"schema": "1.1.1-chakra.0.0.4", "nodes": []}'),
        ("snapshot.pickle", b"\x80\x04x"),
    ],
)
def test_what_lies_beside_traces_by_design_is_no_loss(tmp_path: Path, name: str, content: bytes) -> None:
    kineto(tmp_path / "trace.json")
    (tmp_path / name).write_bytes(content)
    (note,) = find_trace_files([tmp_path]).notes
    assert (note.level, note.location_text) == ("info", str(tmp_path / name))
    assert "looks like" in note_text(note)


def test_of_the_two_forms_of_a_profile_the_one_that_is_not_read_is_named(tmp_path: Path) -> None:
    for host in ("h0", "h1"):
        (tmp_path / f"{host}.xplane.pb").write_bytes(space(Plane("/host:CPU", [Line("python", [Event("a", 0, 1)])])))
    json_form = tmp_path / "h0.trace.json"
    json_form.write_text(
        '{"displayTimeUnit": "ns", "metadata": {"highres-ticks": true}, "traceEvents": ['
        '{"ph": "M", "pid": 701, "name": "process_name", "args": {"name": "/host:CPU"}}, {}]}'
    )
    found = find_trace_files([tmp_path])
    assert [file.path.name for file in found.files] == ["h0.xplane.pb", "h1.xplane.pb"]
    (note,) = (note for note in found.notes if note_text(note).startswith("JSON"))
    assert (note.level, note.count, note.location_text) == ("info", 1, json_form.name)


def test_a_file_and_its_copy_are_both_read_and_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = kineto(tmp_path / "rank0" / "trace.json")
    copied, other = kineto(tmp_path / "rank1" / "trace.json"), kineto(tmp_path / "rank2" / "trace.json", 2)
    (tmp_path / "rank3").mkdir()
    (tmp_path / "rank3" / "trace.json").symlink_to(other)
    assert first.read_bytes() == copied.read_bytes()
    found = find_trace_files([tmp_path])
    assert len(found.files) == 4
    (note,) = found.notes
    assert (note.level, note.count, note.location_text) == ("inferred", 2, "rank0/trace.json, rank1/trace.json")
    assert note_text(note).startswith("identical files count as separate ranks: is one a copy?")
    monkeypatch.chdir(tmp_path)
    assert find_trace_files([first, Path("rank1")]).notes == (note,), "however they are spelt"


RUNS = ("bs128", "bs256")


def test_folders_of_runs_are_different_traces(tmp_path: Path) -> None:
    """Their names differ in numbers alone, as those of ranks do, but their files record the same ranks."""
    for run in RUNS:
        for rank in (0, 1):
            kineto(tmp_path / run / f"rank{rank}.json", rank)
    with pytest.raises(TracehoundError, match="holds 2 different traces; open one of bs128, bs256"):
        find_trace_files([tmp_path])
    assert [file.path.parent.name for file in find_trace_files([tmp_path], "bs256").files] == ["bs256"] * 2


@pytest.mark.parametrize("folder", ["rank{}", "worker_{}", "node-{}", "{}", "job_rank{}_of_2", "part{}"])
def test_folders_of_ranks_are_one_trace(tmp_path: Path, folder: str) -> None:
    """Whatever rank their files record: one file may stand for all; without such a name each records its own."""
    for rank in (0, 1):
        kineto(tmp_path / folder.format(rank) / "trace.json", rank if folder == "part{}" else 0)
    assert len(find_trace_files([tmp_path]).files) == 2


def test_a_run_is_a_folder_of_its_name_wherever_it_is(tmp_path: Path) -> None:
    for run in ("first", "second"):
        kineto(tmp_path / "logs" / run / "trace.json")
    (found,) = find_trace_files([tmp_path], "second").files
    assert found.path.parent.name == "second"


def test_a_path_that_is_named_twice_is_one(tmp_path: Path) -> None:
    path = kineto(tmp_path / "trace.json")
    trace = load_trace(open_trace_files([path, path.parent / "." / path.name]))
    assert (trace.name, len(trace.parts)) == ("trace.json", 1)


def test_traces_in_subfolders_of_a_folder_of_traces_are_told_of(tmp_path: Path) -> None:
    kineto(tmp_path / "rank0.json")
    kineto(tmp_path / "more" / "deep" / "rank1.json", 1)
    kineto(tmp_path / "other" / "a" / "rank0.json")
    kineto(tmp_path / "other" / "b" / "rank0.json")
    (tmp_path / "code").mkdir()
    assert names(tmp_path) == ["rank0.json"]
    (note,) = find_trace_files([tmp_path]).notes
    assert (note.level, note.count, note.location_text) == ("info", 2, str(tmp_path / "more"))
    assert "not read" in note_text(note)
    (note,) = find_trace_files([tmp_path, tmp_path / "more"]).notes
    assert (note.count, note.location_text) == (1, str(tmp_path / "other")), "what is named, too, is read"


def test_what_lies_beside_traces_is_not_searched_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracehound.store.find_files.MAX_NON_TRACES_ASIDE", 3)
    kineto(tmp_path / "rank0.json")
    (tmp_path / "a").mkdir()
    for number in range(9):
        (tmp_path / "a" / f"{number}.txt").write_text("no trace")
    kineto(tmp_path / "b" / "rank1.json")
    assert find_trace_files([tmp_path]).notes == ()


@pytest.fixture
def shut(monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of folders that cannot be read, be the tests root's or not."""
    stat = Path.stat

    def refused(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        if path.parent.name == "shut" or path.parent.parent.name == "shut":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return stat(path, follow_symlinks=follow_symlinks)

    monkeypatch.setattr(Path, "stat", refused)
    return "shut"


def test_a_folder_that_cannot_be_read_is_told_of(tmp_path: Path, shut: str) -> None:
    (tmp_path / "deep" / shut).mkdir(parents=True)
    with pytest.raises(TracehoundError, match=r"no trace in this folder \(shut: permission denied\)"):
        find_trace_files([tmp_path])
    kineto(tmp_path / "rank0" / "trace.json")
    (note,) = find_trace_files([tmp_path]).notes
    assert (note.level, note_text(note), note.location_text) == (
        "dropped",
        "permission denied",
        str(tmp_path / "deep" / shut),
    )


def test_what_looks_like_a_trace_and_is_no_file_is_told_of(tmp_path: Path) -> None:
    kineto(tmp_path / "rank0.json")
    (tmp_path / "rank1.json").symlink_to(tmp_path / "gone.json")
    (tmp_path / "rank2.json").symlink_to(tmp_path / "rank2.json")
    os.mkfifo(tmp_path / "rank3.json")
    (tmp_path / "latest").symlink_to(tmp_path / "gone.json")
    os.mkfifo(tmp_path / "pipe")
    found = find_trace_files([tmp_path])
    assert [file.path.name for file in found.files] == ["rank0.json"]
    assert [(note.level, Path(note.location_text).name, note_text(note)) for note in found.notes] == [
        ("dropped", "rank1.json", "a link to what is not there"),
        ("dropped", "rank2.json", "a link to what is not there"),
        ("dropped", "rank3.json", "is not a regular file"),
    ]


def test_a_search_tells_how_many_files_it_has_looked_at_and_can_be_ended(tmp_path: Path) -> None:
    for number in range(9):
        kineto(tmp_path / f"rank{number}.json", number)
    told: list[int] = []
    find_trace_files([tmp_path], None, told.append)
    assert told == sorted(told)
    assert told[-1] == 9

    def end(files: int) -> None:
        if files == 4:
            raise SystemExit

    with pytest.raises(SystemExit):
        find_trace_files([tmp_path], None, end)


def test_what_is_called_like_something_else_is_opened_only_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kineto(tmp_path / "rank0")
    odd = kineto(tmp_path / "rank1.py", 1)
    assert names(tmp_path) == ["rank0"]
    assert names(odd) == ["rank1.py"]
    odd.rename(tmp_path / "model.SO.1")
    monkeypatch.setattr("tracehound.store.find_files.MAX_NON_TRACES", 0)
    with pytest.raises(TracehoundError, match="more than 0 files that are no traces"):
        find_trace_files([tmp_path])
