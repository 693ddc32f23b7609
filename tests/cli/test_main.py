"""The command line, as a person and as a pipe meet it."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import shlex
import subprocess
import sys
import termios
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import orjson
import pytest

from building import Building, stream
from short import first, some
from tracehound import __version__
from tracehound.__main__ import EXIT_FAULT, _report_fault
from tracehound.analysis import ANALYSES, Analysis, get_analysis
from tracehound.cli.arguments import (
    COMMANDS,
    EXPLORE,
    OPTIONS_WITH_VALUE,
    PARSER_FACTORIES,
    parse_arguments,
    to_summary_arguments,
)
from tracehound.cli.commands import report, trace_input
from tracehound.cli.main import main
from tracehound.numeric import native
from tracehound.progress_line import ProgressLine, progress_sentence
from tracehound.query import ALL_TABLES
from tracehound.report import PAGE_ROWS, READABLE_ROWS, WRITERS, find_writer
from tracehound.store import ReadingProgress

COMMAND = [sys.executable, "-m", "tracehound"]
HOUR = 3_600 * 10**9


def event(name: str, category: str, start: int, length: int, tid: int = 1, **more: object) -> dict[str, object]:
    return {"ph": "X", "name": name, "cat": category, "ts": start, "dur": length, "pid": 10, "tid": tid} | more


def kineto(rank: int, pid: int = 10) -> bytes:
    """A rank of a PyTorch job: two steps with a kernel each, and a gap before every kernel."""
    events = []
    for step in (12, 13):
        start = 1_000 + (step - 12) * 1_000
        correlation = {"args": {"correlation": step, "External id": step}}
        device = {"device": 0, "stream": 7, "correlation": step, "External id": step}
        events += [
            event(f"ProfilerStep#{step}", "user_annotation", start, 900, pid=pid),
            event("aten::mm", "cpu_op", start + 10, 300, pid=pid),
            event("cudaLaunchKernel", "cuda_runtime", start + 20, 10, pid=pid, **correlation),
            event("void gemm<float>(float*)", "kernel", start + 400, 200 + step, pid=0, tid=7, args=device),
        ]
    info = {"backend": "nccl", "rank": rank, "world_size": 2}
    return orjson.dumps({"schemaVersion": 1, "distributedInfo": info, "traceEvents": events})


@pytest.fixture(scope="session")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of two ranks."""
    folder = tmp_path_factory.mktemp("job")
    for rank in (0, 1):
        (folder / f"rank{rank}.pt.trace.json").write_bytes(kineto(rank))
    return folder


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("NO_COLOR", "COLUMNS", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    return


def process(*arguments: str | Path, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """The program in a process of its own, with pipes."""
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, **(environment or {})},
        timeout=600,
        check=False,
    )


def at_a_terminal(arguments: Sequence[str | Path], environment: Mapping[str, str]) -> bytes:
    """What the program prints when its stdout is a terminal."""
    keeper, terminal = pty.openpty()
    termios.tcsetwinsize(terminal, (24, 80))
    with subprocess.Popen(
        [*COMMAND, *map(str, arguments)], stdout=terminal, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
        env={**os.environ, **environment},
    ) as running:  # fmt: skip
        os.close(terminal)
        pieces = []
        while True:
            try:
                piece = os.read(keeper, 65536)
            except OSError:  # Linux says so when the last writer has closed the terminal
                break
            if not piece:
                break
            pieces.append(piece)
        os.close(keeper)
        assert running.wait(600) == 0
    return b"".join(pieces)


# --- what is printed


def test_the_summary_is_one_page_of_eighty_columns(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["summary", str(job)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.splitlines()[0] == job.name
    assert max(map(len, out.splitlines())) <= 80
    for title in ("Overview", "Breakdown", "Steps", "Ops", "Gaps"):
        assert f"\n{title} " in out
    assert "\x1b" not in out


ONE_EACH = [(analysis.name, WRITERS[number % len(WRITERS)].name) for number, analysis in enumerate(ANALYSES)]


@pytest.mark.parametrize(("analysis", "form"), some(ONE_EACH, ONE_EACH[::6]))
def test_every_analysis_is_reported_in_a_form(
    job: Path, capsys: pytest.CaptureFixture[str], analysis: str, form: str
) -> None:
    assert main(["report", str(job), analysis, "--format", form]) == 0
    out = capsys.readouterr().out
    assert out.endswith("\n")
    if form == "json":
        assert json.loads(out)["analysis"] == analysis
    if form == "csv":
        assert len({len(row) for row in csv.reader(io.StringIO(out))}) == 1


def test_a_report_has_the_numbers_of_the_trace(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["report", str(job), "ops", "--format", "json"])
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert (row["name"], row["count"], row["total"]) == ("void gemm<float>(float*)", 4, 850_000_000)


def test_several_paths_are_one_trace(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = sorted(map(str, job.iterdir()))
    main(["report", *paths, "overview", "--format", "json"])
    assert [row["rank"] for row in json.loads(capsys.readouterr().out)["rows"]] == [0, 1]


def test_ranks_and_steps_may_be_named_one_by_one(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["report", str(job), "steps", "--rank", "1", "--rank", "0", "--step", "13", "--step=12", "--format", "json"])
    found = {(row["rank"], row["step"]) for row in json.loads(capsys.readouterr().out)["rows"]}
    assert found == {(0, 12), (0, 13), (1, 12), (1, 13)}
    main(["report", str(job), "steps", "--step", "first", "--step", "last", "--format", "json"])
    assert {(row["rank"], row["step"]) for row in json.loads(capsys.readouterr().out)["rows"]} == found


@pytest.mark.parametrize(
    ("more", "rows", "whole"),
    first(
        1,
        (
            (("--top", "1200"), 1200, 5543),
            (("--format", "csv", "--where", "duration > 0"), 5543, 5543),
            ((), 1000, 5543),
            (("--where", "duration > 0"), 1000, 5543),
            (("--format", "markdown"), 1000, 5543),
            (("--format", "csv"), 5543, 5543),
        ),
    ),
)
def test_what_people_read_has_an_end(
    more: tuple[str, ...], rows: int, whole: int, samples: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(samples / "jax_cpu8_b128"), "gaps", *more]) == 0
    out = capsys.readouterr().out
    caption = out.partition("\n")[0]
    assert "csv" in more or (f"{rows:,} groups" in caption and f"of {whole:,} rows" in caption)
    assert rows <= len(out.splitlines()) - ("csv" in more)


@pytest.mark.parametrize(
    ("name", "ranks", "form", "rows"),
    [
        ("gaps", 8, "text", READABLE_ROWS), ("gaps", 9, "text", PAGE_ROWS), ("ops", 9, "text", READABLE_ROWS),
        ("gaps", 9, "csv", None),
    ],
)  # fmt: skip
def test_of_what_each_of_many_ranks_has_many_of_a_page_is_shown(
    name: str, ranks: int, form: str, rows: int | None
) -> None:
    b = Building()
    for rank in range(ranks):
        b.event(stream(rank), "gemm", 0, 1)
    assert report._default_rows(find_writer(form), get_analysis(name), b.trace()) == rows


def test_rank_step_window_and_top_narrow_a_report(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["report", str(job), "steps", "--rank", "1", "--step", "13", "--format", "json"])
    document = json.loads(capsys.readouterr().out)
    assert [(row["rank"], row["step"]) for row in document["rows"]] == [(1, 13)]
    assert document["window"]["end_ps"] - document["window"]["start_ps"] == 900_000_000
    assert document["ranks"] == [1]
    main(["report", str(job), "gaps", "--top", "1"])
    assert "1 group of ranks (2 rows)" in capsys.readouterr().out
    main(["report", str(job), "ops", "--window", "..1ms", "--unit", "us"])
    out = capsys.readouterr().out
    assert "424.000 us" in out
    assert "window 0.000 us to 1,000.000 us" in out


def test_a_window_that_goes_beyond_the_trace_is_told_to_be_cut(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["summary", str(job)], ["report", str(job), "ops", "--format", "json"]):
        main([*command, "--window", "..1ms"])
        assert "the window is cut" not in capsys.readouterr().err
        main([*command, "--window", "..9s"])
        assert "the window is cut: the trace goes from 0 s to" in capsys.readouterr().err


def test_steps_in_which_the_device_works_on_others_are_told_of_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    link = {"args": {"correlation": 1, "device": 0, "stream": 7}}
    events = [event(f"ProfilerStep#{step}", "user_annotation", step * 100, 100) for step in (1, 2)]
    events += [event("cudaLaunchKernel", "cuda_runtime", 110, 5, **link)]
    events += [event("gemm", "kernel", 205, 90, pid=0, tid=7, **link)]
    path = tmp_path / "ahead.json"
    path.write_bytes(orjson.dumps({"schemaVersion": 1, "traceEvents": events}))
    for step, times in (("2", 1), ("1", 0)):
        assert main(["summary", str(path), "--step", step]) == 0
        out, err = capsys.readouterr()
        assert out.count("100 % of the device work in this window was launched in other steps") == times
        assert "in other steps" not in err
        assert main(["report", str(path), "ops", "--step", step, "--format", "csv"]) == 0
        assert capsys.readouterr().err.count("was launched in other steps") == times
        assert main(["export", str(path), str(tmp_path / f"{step}.parquet"), "--step", step]) == 0
        assert capsys.readouterr().err.count("was launched in other steps") == times


def test_a_value_may_be_below_zero(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--window", "-5ms..1ms"], ["--window=-5ms..1ms"]):
        assert main(["report", str(job), "ops", *words]) == 0
        out, err = capsys.readouterr()
        assert "window 0.000 us to 1.000 ms" in out
        assert "the window is cut" in err
    with pytest.raises(SystemExit):
        main(["report", str(job), "ops", "--top", "-3"])
    assert "'-3' is not a whole number from 1" in capsys.readouterr().err


@pytest.mark.parametrize("number", ["0", "257", "100000"])
def test_worker_processes_are_not_without_number(capsys: pytest.CaptureFixture[str], number: str) -> None:
    assert parse_arguments(["x", "--jobs", "256"]).jobs == 256
    with pytest.raises(SystemExit):
        parse_arguments(["x", "--jobs", number])
    told = f"argument --jobs: '{number}' is not a whole number from 1 to 256; see tracehound --help"
    assert capsys.readouterr().err == f"tracehound: {told}\n"


def test_csv_keeps_its_notes_out_of_the_data(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["report", str(job), "gaps", "--top", "1", "--format", "csv"])
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 2
    assert err.startswith("tracehound: 1 of 2 rows\n")


def test_pages_in_csv_keep_their_notes_too(job: Path, samples: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["summary", str(job), "--top", "1", "--format", "csv"])
    assert "tracehound: gaps: 1 of 2 rows\n" in capsys.readouterr().err
    main(["diff", str(job), str(job), "--format", "csv"])
    err = capsys.readouterr().err
    assert err.startswith("tracehound: headline: no change: step time 900 us in both runs\n")
    assert f"tracehound: baseline: {job.name}: 2 steps on 2 ranks" in err
    assert "tracehound: diff: too few steps to tell a change from noise" in err
    main(["hlo", str(samples / "jax_cpu8_b128"), "all-reduce.11", "--top", "2", "--format", "csv"])
    out, err = capsys.readouterr()
    assert out.startswith("# stack\nsource,function\n")
    assert "tracehound: executions: 32 on 8 ranks" in err
    assert "tracehound: words: all-reduce: every device ends with the sum over its group\n" in err
    assert "tracehound: inside: 2 of 3 rows\n" in err


@pytest.mark.parametrize("form", some((each.name for each in WRITERS), ("text", "csv")))
def test_a_report_of_what_is_hardly_one_run_says_so_once(
    tmp_path: Path, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for hour in (0, 1):
        document = orjson.loads(kineto(0, pid=10 + hour)) | {"distributedInfo": None}
        document["baseTimeNanoseconds"] = (500_000 + hour) * HOUR
        (tmp_path / f"{'ab'[hour]}.pt.trace.json").write_bytes(orjson.dumps(document))
    main(["report", str(tmp_path), "findings", "--width", "0", "--format", form])
    out, err = capsys.readouterr()
    said, silent = (err, out) if form == "csv" else (out, err)
    assert (
        said.count(
            "probably not one run: the files do not overlap in time; all numbers are of these files "
            "together; open one file, or choose with --rank"
        )
        == 1
    )
    assert "hardly" not in silent


@pytest.mark.parametrize("form", some((*(each.name for each in WRITERS), "junit"), ("text", "junit")))
def test_a_gate_of_what_is_hardly_one_run_says_so_once_for_each(
    tmp_path: Path, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (runs := tmp_path / "runs").mkdir()
    for hour in (0, 1):
        document = orjson.loads(kineto(0, pid=10 + hour)) | {"distributedInfo": None}
        document["baseTimeNanoseconds"] = (500_000 + hour) * HOUR
        (runs / f"{'ab'[hour]}.pt.trace.json").write_bytes(orjson.dumps(document))
    base, told = (
        str(tmp_path / "base.json"),
        (
            "probably not one run: the files do not overlap in time; all numbers are of these files "
            "together; open one file, or choose with --rank"
        ),
    )
    gate = ["--fail-on", "idle < 1%", "--width", "0", "--format", form]
    for asked, times in ((["check", str(runs), "--save-baseline", base], 1), (["diff", base, str(runs)], 2)):
        main([*asked, *gate])
        out, err = capsys.readouterr()
        said, silent = (err, out) if form in {"csv", "junit"} else (out, err)
        names = 2 if form == "json" and asked[0] == "diff" else 1  # json has runs by their older names, too
        assert (said.count(told), silent.count(told)) == (times * names, 0)


def test_width_zero_is_as_wide_as_it_takes(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["report", str(job), "ops", "--width", "0"])
    assert "void gemm<float>(float*)" in capsys.readouterr().out
    main(["report", str(job), "ops", "--width", "40"])
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 40


def test_ascii_is_ascii(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["summary", str(job), "--ascii"])
    assert capsys.readouterr().out.isascii()


def test_the_list_names_every_analysis(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--list"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in listed] == [analysis.name for analysis in ANALYSES]
    assert all(line.endswith("?") for line in listed)


@pytest.mark.parametrize("analysis", ANALYSES, ids=lambda a: a.name)
def test_every_analysis_explains_itself(analysis: Analysis, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", analysis.name, "--explain"]) == 0
    out = capsys.readouterr().out
    assert " ".join(out.split()).startswith(f"{analysis.name}: {analysis.question}")
    assert all(f"  {column.name.replace('_', ' ')} " in out for column in analysis.columns if column.unit != "id")
    assert all(
        f"  {setting.name} " in out and "".join(setting.default.split()) in "".join(out.split())
        for setting in analysis.settings
    )
    assert max(map(len, out.splitlines())) <= 80


def test_a_setting_changes_the_report_also_where_tables_are_kept(
    job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outputs = set()
    for setting in ("delay=30us", "delay=1ps"):
        for _ in range(2):
            assert main(["report", str(job), "idle", "--set", setting, "--cache", str(tmp_path)]) == 0
            outputs.add((setting, capsys.readouterr().out))
    assert len(outputs) == 2
    assert all(f"with {setting}" in out for setting, out in outputs)


def test_a_report_keeps_the_rows_that_a_filter_holds_for(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(job), "gaps", "--where", "rank = 0 and duration > 700us"]) == 0
    assert "Gaps · 1 of 2 rows" in capsys.readouterr().out
    assert main(["report", "--where", "rank = 1", str(job), "gaps", "--top", "1", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [row["rank"] for row in document["rows"]] == [1]
    assert document["rows_total"] == 2
    assert document["notes"][0] == "where rank = 1: 1 of 2 rows"


@pytest.mark.parametrize(
    ("command", "older"),
    [
        (["report", "utilization"], ["report", "utilisation"]),
        (
            ["report", "utilization", "--where", "utilization < 50%", "--set", "by=step"],
            ["report", "utilisation", "--where", "utilisation < 50%", "--set", "by=step"],
        ),
        (["report", "utilization_curve", "--explain"], ["report", "utilisation_curve", "--explain"]),
        (["query", "--tables", "utilization"], ["query", "--tables", "utilisation"]),
        (
            ["query", "SELECT rank FROM utilization", "--set", "utilization.by=kernel"],
            ["query", "SELECT rank FROM utilisation", "--set", "utilisation.by=kernel"],
        ),
    ],
)
def test_older_names_are_accepted(
    command: list[str], older: list[str], job: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs = list[str]()
    for first_word, *rest in (command, older):
        paths = [] if {"--tables", "--explain"} & {*rest} else [str(job)]
        assert main([first_word, *paths, *rest]) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1].replace("utilisation", "utilization")
    monkeypatch.chdir(job)
    assert main(["utilisation"]) == 2
    assert "did you mean tracehound report PATH utilisation?" in capsys.readouterr().err


def test_a_filter_is_of_the_columns_that_the_rows_have_as_they_were_chosen(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["report", str(job), "breakdown", "--set", "by=step", "--format", "json"]
    assert main([*command, "--where", "step >= 0 and rank = 1"]) == 0
    assert {row["rank"] for row in json.loads(capsys.readouterr().out)["rows"]} <= {1}
    assert main([*command, "--where", "device ~ cpu"]) == 2


def test_a_filter_that_is_none_is_refused_before_the_trace_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "nowhere/", "ops", "--where", "selff > 1ms"]) == 2
    assert capsys.readouterr().err == "tracehound: filter, character 1: no column 'selff'; did you mean self?\n"


def test_an_analysis_without_settings_says_so(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(job), "health", "--set", "delay=1us"]) == 2
    assert "this analysis has none" in capsys.readouterr().err


@pytest.mark.parametrize("peak", [["--peak", "H100"], ["--peak=H100"], ["--set", "peak=H100"]])
def test_the_peak_of_a_device_is_given_in_short(job: Path, peak: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    for order in (["report", *peak, str(job), "roofline"], ["report", str(job), "roofline", *peak]):
        assert main([*order, "--format", "json"]) == 0
        assert "with peak=H100" in json.loads(capsys.readouterr().out)["notes"]


@pytest.mark.parametrize(
    ("analysis", "peak", "why"),
    [
        ("health", "H100", "no setting 'peak'; this analysis has none"),
        ("idle", "H100", "no setting 'peak'; there is delay"),
        ("roofline", "nonsense", "peak: 'nonsense' is neither a peak nor a device of the table"),
        ("roofline", "100", "peak: '100' has no unit; write a device (H100, v6e) or figures: 989T,3.35TB/s"),
        ("roofline", "989T,f32:67", "peak: 'f32:67' has no unit"),
    ],
)
def test_a_peak_that_cannot_be_is_refused_in_one_line(
    job: Path, analysis: str, peak: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(job), analysis, "--peak", peak]) == 2
    told = capsys.readouterr().err
    assert why in told
    assert told.count("\n") == 1


# --- two runs side by side


def test_a_run_differs_in_nothing_from_itself(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", str(job), str(job), "--fail-on", "step_time > +1%"]) == 0
    out = capsys.readouterr().out
    assert "no difference" in out
    assert "too few steps to tell a change from noise: at least 4 in each run are needed" in out


@pytest.mark.parametrize("form", [writer.name for writer in WRITERS])
def test_a_gate_fails_in_every_form(form: str, job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["diff", str(job), str(job), "--fail-on", "idle > 1%", "--fail-on", "compute > 99%", "--format", form]
    assert main(arguments) == 1
    said = capsys.readouterr()
    *notes, last = said.err.splitlines()
    assert last.startswith("tracehound: failed: idle > 1%: ")
    assert bool(notes) == (form == "csv"), "which has no other place for them"
    assert "failed" in said.out
    assert "passed" in said.out
    if form == "json":
        document = json.loads(said.out)
        assert (document["schema"], document["failed"]) == ("tracehound.comparison/1", True)
        assert list(document["results"]) == [
            "gate",
            "diff",
            "diff-categories",
            "diff-ops",
            "diff-ranks",
            "diff-idle",
            "diff-causes",
        ]


def test_a_gate_for_ci(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(job), "--fail-on", "idle > 1%", "--fail-on", "copy > 1%", "--format", "junit"]) == 1
    suite = ET.fromstring(capsys.readouterr().out)  # noqa: S314, the program's own words
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    assert [case.get("name") for case in suite if case.find("failure") is not None] == ["idle > 1%"]


def test_a_baseline_stands_in_for_its_run(job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = tmp_path / "base.json"
    assert main(["check", str(job), "--save-baseline", str(base)]) == 0
    capsys.readouterr()
    assert main(["diff", str(job), str(job)]) == 0
    expected = capsys.readouterr().out
    assert main(["diff", str(base), str(job)]) == 0
    assert capsys.readouterr().out == expected


def test_options_may_stand_between_paths(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (
        ["report", str(job), "--top", "1", "ops"],
        ["query", str(job), "--top", "1", "SELECT 1 AS one FROM ranks"],
        ["diff", str(job), "--top", "1", str(job)],
    ):
        assert main(arguments) == 0, arguments
        assert capsys.readouterr().out


def test_of_two_runs_it_is_said_which_lacks_a_step(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", str(job), str(job), "--step", "99"]) == 2
    assert capsys.readouterr().err.startswith(f"tracehound: {job}: no step 99 here")


def test_a_baseline_is_not_narrowed_and_replaces_no_trace(
    job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base, trace = tmp_path / "base.json", tmp_path / "trace.json"
    assert main(["check", str(job), "--save-baseline", str(base)]) == 0
    capsys.readouterr()
    assert main(["diff", str(base), str(job), "--rank", "0"]) == 0
    assert "is a baseline: --rank, --step and --window narrow the candidate alone" in capsys.readouterr().err
    trace.write_bytes(kineto(0))
    assert main(["check", str(trace), "--save-baseline", str(trace)]) == 2
    assert "is not a baseline, and is not replaced" in capsys.readouterr().err
    assert trace.read_bytes() == kineto(0)


# --- what is wrong, in one line


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["report", "{job}", "summary"], "summary is a command, not an analysis; tracehound summary PATH..."),
        (["summary", "{job}/nothing"], "no such file"),
        (["{job}/nothing"], "no such file"),
        (["summary", "ftp://here/a.json.gz"], "ftp://here/a.json.gz: ftp:// is not read; download it first"),
        (["diff", "hdfs://here/a", "{job}"], "hdfs://here/a: hdfs:// is not read"),
        (["sumary", "{job}", "--top", "3"], "no file or command is called sumary; did you mean summary?"),
        (["hlo_ops", "{job}"], "is called hlo_ops; did you mean tracehound report PATH hlo_ops?"),
        (["summary", ""], "a path is empty"),
        (["{job}", "--theme", "nosuch"], "no theme is called nosuch; there are dark, light"),
        (["summary", "-"], "-: a pipe cannot be read; save it to a file first"),
        (["report", "{job}", "-", "ops"], "-: a pipe cannot be read; save it to a file first"),
        (["report", "{job}", "op"], "no analysis 'op'; did you mean ops?"),
        (["diff", "{job}", "{job}/nothing"], "no such file"),
        (["diff", "{job}", "{job}", "--fail-on", "idle"], "not a condition: 'idle'"),
        (["diff", "{job}", "{job}", "--format", "junit"], "junit tells what came of conditions"),
        (["diff", "{job}", "{job}", "--format", "jsn"], "no form 'jsn'; did you mean json?"),
        (["check", "{job}"], "no condition"),
        (["check", "{job}", "--fail-on", "idle > +3%"], "compares with a baseline"),
        (["report", "{job}", "zzz"], "no analysis 'zzz'; tracehound report --list names them all"),
        (
            ["report", "{job}", "memory_op"],
            "did you mean memory or memory_blocks or memory_operators? tracehound report",
        ),
        (["report", "{job}"], "is a path; name an analysis after it"),
        (["report", "ops"], "ops of which trace? tracehound report PATH... ops"),
        (["report"], "which analysis, of which trace?"),
        (["report", "ops", "{job}"], "is a path; name ops after it"),
        (["report", "{job}", "{job}"], "is a path; name an analysis after it; tracehound report --list names them all"),
        (["summary", "{job}", "--rank", "9"], "no rank 9 in this trace; there are 0-1"),
        (["summary", "{job}", "--step", "7-9"], "no steps 7-9 here; there are 12-13"),
        (["summary", "{job}", "--rank", "x"], "'x' names no rank"),
        (["summary", "{job}", "--step", "99"], "no step 99 here; there are 12-13"),
        (["summary", "{job}", "--window", "5..6"], "'5' is not a time"),
        (["summary", "{job}", "--window", "9s..10s"], "nothing happens in that window"),
        (["summary", "{job}", "--format", "jsn"], "no form 'jsn'; did you mean json?"),
        (["report", "--list", "--format", "json"], "--list prints text alone, no json; leave --format out"),
        (["report", "--list", "--format", "jsn"], "no form 'jsn'; did you mean json?"),
        (["report", "{job}", "ops", "--explain", "--format", "csv"], "--explain prints text alone, no csv"),
        (["summary", "{job}", "--run", "x"], "no run 'x'"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(
    job: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], why: str
) -> None:
    assert main([argument.replace("{job}", str(job)) for argument in arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("tracehound: ")
    assert err.count("\n") == 1
    assert why in err


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["report", "x", "ops", "--stp=3", "-q"], "unrecognized arguments: --stp=3 -q; did you mean --step?"),
        (["report", "x", "ops", "-q", "--json"], "unrecognized arguments: -q --json; did you mean --format json?"),
        (["export", "x", "out", "--parquet"], "unrecognized arguments: --parquet; did you mean --format parquet?"),
        (["summary", "x", "--xyz"], "unrecognized arguments: --xyz; see tracehound summary --help"),
        (["summary", "x", "-q"], "unrecognized arguments: -q; see tracehound summary --help"),
        (["--bogus"], "unrecognized arguments: --bogus; see tracehound --help"),
        (["check", "--ranks=3"], "unrecognized arguments: --ranks=3; did you mean --rank?"),
    ],
)
def test_an_option_that_there_is_not_is_told_with_the_nearest(
    capsys: pytest.CaptureFixture[str], arguments: list[str], why: str
) -> None:
    with pytest.raises(SystemExit):
        main(arguments)
    assert capsys.readouterr().err == f"tracehound: {why}\n"


def test_what_can_be_done_with_the_cache_is_named_where_it_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["cache"])
    required = "the following arguments are required: list|clear; see tracehound cache --help"
    assert capsys.readouterr().err == f"tracehound: {required}\n"


@pytest.mark.parametrize(
    "arguments",
    [[], ["summary"], ["summary", "x", "--bogus"], ["summary", "x", "--top", "0"], ["summary", "x", "--unit", "h"],
     ["summary", "x", "--top", "9" * 30], ["summary", "x", "--width", "9" * 30],
     ["summary", "x", "--step", "1", "--window", "..1s"], ["report", "x", "ops", "--width", "-1"],
     ["summary", "x", "--rank", ""], ["summary", "x", "--step", " "], ["export", "x", "y", "--window="],
     ["report", "x", "ops", "--where", ""], ["x", "--diff", ""], ["summary", "x", "--cache", ""]],
)  # fmt: skip
def test_wrong_arguments_are_said_in_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "--help" in err
    assert " _" not in err  # no name of the program's inside


def test_a_bad_file_of_many_is_named_and_the_others_are_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rank0.pt.trace.json").write_bytes(kineto(0))
    (tmp_path / "rank1.pt.trace.json").write_bytes(b"")
    assert main(["report", str(tmp_path), "overview", "--format", "json"]) == 0
    out, err = capsys.readouterr()
    assert [row["rank"] for row in json.loads(out)["rows"]] == [0]
    assert err.count("\n") == 1
    assert "rank1.pt.trace.json" in err


def test_many_bad_files_are_told_of_in_a_few_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rank0.pt.trace.json").write_bytes(kineto(0))
    for number in range(30):
        (tmp_path / f"config{number}.json").write_bytes(b'{"learning_rate": 1}')
    assert main(["report", str(tmp_path), "health"]) == 0
    out, err = capsys.readouterr()
    assert err.count("\n") == 6
    assert err.endswith("tracehound: 25 more like these; tracehound report PATH health --notes names all\n")
    assert "dropped in 30 files: not a trace: looks like JSON without trace events" in out
    assert main(["report", str(tmp_path), "health", "--notes"]) == 0
    assert capsys.readouterr().out.count("JSON without trace events") == 30


def test_a_bad_file_that_is_named_is_told_of_and_the_others_are_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = tmp_path / "rank0.pt.trace.json", tmp_path / "rank1.pt.trace.json"
    good.write_bytes(kineto(0))
    bad.write_bytes(b"")
    named = (str(bad), str(good))
    for command in (["summary", *named], ["report", *named, "health"]):
        assert main(command) == 0
        out, err = capsys.readouterr()
        assert "the file is empty" in out
        assert err == f"tracehound: {bad}: the file is empty\n"
    assert main(["hlo", *named]) == 2  # there is none in a trace of PyTorch
    assert capsys.readouterr().err.startswith(f"tracehound: {bad}: the file is empty\n")
    assert main(["summary", str(bad)]) == 2
    assert main(["summary", str(good), str(tmp_path / "absent.json")]) == 2


def test_a_trace_cannot_speak_to_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "evil.json"
    path.write_bytes(orjson.dumps({"traceEvents": [event("evil\x1b]0;x\x07\x9b2J\u202e", "cpu_op", 0, 5)]}))
    for form in WRITERS:
        assert main(["report", str(path), "ops", "--format", form.name]) == 0
        assert main(["summary", str(path), "--format", form.name]) == 0
    out, err = capsys.readouterr()
    assert all(char.isprintable() or char == "\n" for char in out + err)


def test_control_c_ends_silently(
    job: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(trace_input, "load_trace", interrupted)
    assert main(["summary", str(job)]) == 130
    assert capsys.readouterr() == ("", "")


# --- which command is meant


@pytest.mark.parametrize(
    ("arguments", "command", "paths"),
    [
        (["x"], "explore", ["x"]),
        (["--ascii", "summary", "x"], "summary", ["x"]),
        (["--run", "summary", "x"], "explore", ["x"]),
        (["x", "summary"], "explore", ["x", "summary"]),
        (["--", "summary"], "explore", ["summary"]),
        (["./summary"], "explore", ["./summary"]),
        (["report", "a", "b", "ops"], "report", ["a", "b", "ops"]),
    ],
)
def test_the_first_word_is_a_command_or_a_path(arguments: list[str], command: str, paths: list[str]) -> None:
    asked = parse_arguments(arguments)
    assert (asked.command, asked.paths) == (command, paths)


@pytest.mark.parametrize("arguments", [["explore"], ["explore", "x"]])
def test_what_is_done_without_a_command_is_none_itself(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "explore").mkdir()
    asked = parse_arguments(arguments)
    assert (asked.command, asked.paths) == (EXPLORE, arguments)


@pytest.mark.parametrize("error", [MemoryError("Unable to allocate 965. KiB"), RuntimeError("can't start new thread")])
def test_too_little_memory_is_one_line(
    error: Exception, samples: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def starved(*_: object) -> None:
        raise error

    monkeypatch.setattr(trace_input, "load_trace", starved)
    assert main(["report", str(samples / "torch_stacks"), "ops"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("tracehound: not enough memory; --jobs 1 and a --window take less")
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    "arguments", first(1, (["export", "{sample}", "x.json"], ["summary", "x"], ["report", ".", "ops"]))
)
def test_a_current_folder_that_is_gone_is_one_line(
    arguments: list[str],
    samples: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    sample = str(samples / "torch_ddp_gloo")
    assert main([word.format(sample=sample) for word in arguments]) == 2
    assert capsys.readouterr().err == "tracehound: the current folder is gone; cd to it again\n"
    assert main(["summary", sample]) == 0, "another one is there"


def test_every_option_that_takes_a_value_is_known() -> None:
    """Else its value is taken for a command where it is called like one."""
    actions = [action for parser in PARSER_FACTORIES.values() for action in parser()._actions]
    valued = {word for action in actions if action.nargs != 0 for word in action.option_strings}
    assert set(OPTIONS_WITH_VALUE) == valued


def test_help_is_true_of_streams_and_environment(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    out = capsys.readouterr().out
    assert "Without a terminal on stdin and stdout (" in out
    assert "TRACEHOUND_DEBUG=1" in out


def test_the_help_of_check_is_of_one_run(capsys: pytest.CaptureFixture[str]) -> None:
    for command, signed in (("check", False), ("diff", True)):
        with pytest.raises(SystemExit):
            main([command, "--help"])
        assert ("+3%" in capsys.readouterr().out) is signed


def test_a_fault_says_how_to_see_where(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("TRACEHOUND_DEBUG", raising=False)
    assert _report_fault(ValueError("x")) == EXIT_FAULT
    assert capsys.readouterr().err.endswith("ValueError: x; try --no-cache; TRACEHOUND_DEBUG=1 shows where it lies\n")


@pytest.mark.parametrize("width", [60, 80, 120, 200])
@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_fits_the_terminal(
    command: str, width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    with pytest.raises(SystemExit) as caught:
        main([*filter(None, [command]), "--help"])
    lines = capsys.readouterr().out.splitlines()
    assert caught.value.code == 0
    assert max(map(len, lines)) <= width
    assert "examples:" in lines or command == "cache"


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--version"])
    how = "Python alone" if native.library() is None else "compiled"
    assert capsys.readouterr().out == f"tracehound {__version__} ({how})\n"


# --- the program in a process of its own


def test_without_a_terminal_the_explorer_gives_way_to_the_summary(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alone = process(job)
    assert alone.returncode == main(["summary", str(job)]) == 0
    assert alone.stdout == capsys.readouterr().out
    assert alone.stderr == ""


def test_the_summary_that_stands_in_reads_as_the_explorer_was_asked_to(tmp_path: Path) -> None:
    asked = parse_arguments(["x", "y", "--run", "r", "--ascii", "--jobs", "7", "--cache", str(tmp_path)])
    summary = to_summary_arguments(asked)
    assert (summary.paths, summary.run, summary.ascii, summary.jobs) == (["x", "y"], "r", True, 7)
    assert (summary.cache, summary.no_cache) == (tmp_path, False)
    assert to_summary_arguments(parse_arguments(["--no-cache", "--", "-x"])).no_cache


@pytest.mark.thorough
def test_a_file_on_stdin_is_no_pipe(job: Path) -> None:
    with next(job.iterdir()).open("rb") as file:
        done = subprocess.run([*COMMAND, "summary", "-"], stdin=file, capture_output=True, text=True, check=False)
    assert done.stderr == "tracehound: -: stdin is not read by this name; give the file's path, or /dev/stdin\n"


def test_a_closed_pipe_is_no_error(job: Path) -> None:
    script = f'{" ".join(COMMAND)} report {job} health ops --list | head -c 5; echo "codes ${{PIPESTATUS[*]}}"'
    found = subprocess.run(["/bin/bash", "-c", script], capture_output=True, text=True, timeout=600, check=False)
    assert found.stdout == "overvcodes 0 0\n"
    assert found.stderr == ""


@pytest.mark.thorough
def test_a_reader_that_leaves_at_once_is_no_error(job: Path) -> None:
    away, pipe = os.pipe()
    os.close(away)
    with subprocess.Popen([*COMMAND, "summary", str(job)], stdout=pipe, stderr=subprocess.PIPE, text=True) as running:
        os.close(pipe)
        assert running.communicate(timeout=600)[1] == ""
    assert running.returncode == 0


@pytest.mark.parametrize("command", first(1, ("check {0}", "diff {0} {0}")))
def test_a_reader_that_leaves_changes_no_verdict(job: Path, command: str) -> None:
    away, pipe = os.pipe()
    os.close(away)
    words = [*COMMAND, *command.format(job).split(), "--fail-on", "idle > 0.1%"]
    with subprocess.Popen(words, stdout=pipe, stderr=subprocess.PIPE, text=True) as running:
        os.close(pipe)
        assert running.communicate(timeout=600)[1].startswith("tracehound: failed: idle > 0.1%: ")
    assert running.returncode == 1


@pytest.mark.parametrize(
    ("redirection", "why"),
    first(1, ((">/dev/full", "cannot write to stdout: no space left on device"), (">&-", "is closed"))),
)
@pytest.mark.parametrize(
    "words", first(1, ("summary {}", "--version", "report {} ops --format csv", "report --list", "hlo --help"))
)
def test_output_that_cannot_be_written_is_one_line(job: Path, words: str, redirection: str, why: str) -> None:
    script = f"{' '.join(COMMAND)} {words.format(job)} {redirection}"
    found = subprocess.run(["/bin/bash", "-c", script], capture_output=True, text=True, timeout=600, check=False)
    assert found.returncode == 2
    assert found.stderr.count("\n") == 1
    assert why in found.stderr


@pytest.mark.parametrize(("words", "code"), first(1, (("summary nothing", 2), ("summary {}", 0))))
def test_a_closed_stderr_is_no_error(job: Path, words: str, code: int) -> None:
    script = f"{' '.join(COMMAND)} {words.format(job)} 2>&-"
    found = subprocess.run(["/bin/bash", "-c", script], capture_output=True, text=True, timeout=600, check=False)
    assert found.returncode == code


def test_an_old_encoding_gets_ascii(job: Path) -> None:
    found = process("summary", job, environment={"PYTHONIOENCODING": "latin-1"})
    assert found.returncode == 0
    assert found.stdout.isascii()


@pytest.mark.parametrize("form", first(1, ("markdown", "csv", "json")))
def test_data_is_utf8_whatever_the_locale(tmp_path: Path, form: str) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(orjson.dumps({"traceEvents": [event("größe 😀", "cpu_op", 0, 5)]}))
    found = subprocess.run(
        [*COMMAND, "report", str(path), "ops", "--format", form],
        capture_output=True, timeout=600, check=False, env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )  # fmt: skip
    assert found.returncode == 0
    assert "größe 😀" in found.stdout.decode()


@pytest.mark.thorough
def test_colors_are_for_terminals_that_want_them(job: Path) -> None:
    wanted = at_a_terminal(["summary", job], {})
    refused = at_a_terminal(["summary", job], {"NO_COLOR": "1"})
    dumb = at_a_terminal(["summary", job], {"TERM": "dumb"})
    assert b"\x1b[1;36m" in wanted
    assert b"\x1b" not in refused
    assert b"\x1b" not in dumb


@pytest.mark.thorough
def test_a_terminal_is_as_wide_as_it_is_whatever_the_environment_says(job: Path) -> None:
    shown = [at_a_terminal(["report", job, "ops"], {"COLUMNS": columns}) for columns in ("60", "200")]
    assert shown[0] == shown[1]


@pytest.mark.thorough
def test_a_headless_run_imports_no_terminal_toolkit(job: Path) -> None:
    script = (
        "import sys; from tracehound.cli.main import main\n"
        f"for words in (['summary'], ['report']): main([*words, {str(job)!r}, *(['gaps'] * (words == ['report']))])\n"
        "print([name for name in ('textual', 'plotext', 'asyncio') if name in sys.modules], file=sys.stderr)"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=600, check=True)
    assert found.stderr == "[]\n"


def test_a_command_imports_nothing_of_the_others(job: Path) -> None:
    others = (
        "tracehound.diff",
        "tracehound.query",
        "tracehound.hlo",
        "tracehound.cli.commands.d",
        "tracehound.analysis.gaps",
    )
    script = (
        f"import sys; from tracehound.cli.main import main; main(['report', {str(job)!r}, 'ops'])\n"
        f"print([name for name in sys.modules if name.startswith({others!r})], file=sys.stderr)"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=600, check=True)
    assert found.stderr == "[]\n"


@pytest.mark.parametrize(
    ("name", "said", "told"),
    [
        ("OPENBLAS_NUM_THREADS", None, "1"),
        ("OPENBLAS_NUM_THREADS", "3", "3"),
        ("_RJEM_MALLOC_CONF", None, "dirty_decay_ms:500,oversize_threshold:2097152"),
        ("_RJEM_MALLOC_CONF", "dirty_decay_ms:0", "dirty_decay_ms:0"),
    ],
)
def test_libraries_are_told_before_they_start_what_the_user_told_them_or_what_is_quick(
    name: str, said: str | None, told: str
) -> None:
    program = f"""if True:
        import os, sys, types
        from tracehound.__main__ import start
        sys.modules["tracehound.cli.main"] = types.SimpleNamespace(main=lambda: print(os.environ["{name}"]))
        start()
    """
    environment = {key: value for key, value in os.environ.items() if key != name} | ({name: said} if said else {})
    ran = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert ran.stdout.strip() == told


@pytest.mark.thorough
def test_what_was_read_before_is_shown_without_what_reads(job: Path, tmp_path: Path) -> None:
    words = ["report", str(job), "ops", "--cache", str(tmp_path / "cache")]
    script = (
        f"import sys; from tracehound.cli.main import main; main({words!r})\n"
        "reading = ('tracehound.formats.kineto.kineto_reader', 'multiprocessing')\n"
        "print([name for name in sys.modules if name.startswith(reading)], file=sys.stderr)"
    )
    first, again = (
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=600, check=True)
        for _ in range(2)
    )
    assert "kineto" in first.stderr
    assert again.stderr == "[]\n"
    assert again.stdout == first.stdout


# --- how far the reading is


def test_progress_is_one_line_that_goes_away() -> None:
    stream = io.StringIO()
    reading = ReadingProgress(Path("a\x1b.json"), 0, 2, 50, 100, 1_200_000, 2.0)
    with ProgressLine(stream) as progress:
        progress.show_reading(reading)
        progress.show_reading(reading)  # too soon to be worth a line
    assert stream.getvalue() == f"\r\x1b[K{progress_sentence(reading)}\r\x1b[K"
    assert progress_sentence(reading) == "reading a␛.json, 1 of 2 files, 50 %, 600 k events/s, 2 s left"


def test_nothing_read_leaves_no_line() -> None:
    stream = io.StringIO()
    with ProgressLine(stream):
        pass
    assert stream.getvalue() == ""


# --- queries


@pytest.mark.parametrize("form", [form.name for form in WRITERS])
def test_a_query_is_answered_in_every_form(job: Path, capsys: pytest.CaptureFixture[str], form: str) -> None:
    statement = "SELECT name, sum(duration) AS total FROM events WHERE kind = 'kernel' GROUP BY name"
    assert main(["query", str(job), statement, "--format", form, "--unit", "us", "--rank", "1"]) == 0
    out = capsys.readouterr().out
    assert ("425000000" if form in ("csv", "json") else "425.000 us") in out


def test_a_row_without_any_value_is_a_row(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for listed in ("max(duration) AS m FROM events WHERE name = 'nope'", "duration / 0 AS m FROM events LIMIT 1"):
        assert main(["query", str(job), f"SELECT {listed}"]) == 0
        assert [line.strip() for line in capsys.readouterr().out.splitlines()] == ["Query", "m", "–", "no value: m"]


def test_a_cut_answer_says_so(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["query", str(job), "SELECT name FROM events", "--top", "3"])
    assert "Query · 3 of 16 rows" in capsys.readouterr().out
    main(["query", str(job), "SELECT name FROM events", "--top", "3", "--format", "csv"])
    assert capsys.readouterr().err == "tracehound: 3 of 16 rows\n"


def test_people_see_a_thousand_rows_and_programs_all(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    statement = "SELECT a.name FROM events a CROSS JOIN events b CROSS JOIN (SELECT * FROM events LIMIT 5) c"
    main(["query", str(job), statement])
    assert capsys.readouterr().out.startswith("Query · 1,000 of 1,280 rows\n")
    main(["query", str(job), statement, "--format", "json"])
    assert len(json.loads(capsys.readouterr().out)["rows"]) == 1280


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], "which query, of which trace?"),
        (["{job}"], "is a path; tracehound query PATH... 'SELECT ...'"),
        (["SELECT name FROM events"], "a query of which trace?"),
        (["{job}", "SELECT", "name", "FROM", "events"], "put the whole statement in quotes"),
        (["{job}/nothing", "SELECT dur FROM events"], "did you mean duration?"),
        (["{job}/nothing", "SELECT name FROM events"], "no such file"),
        (["{job}", "SELECT \x1b[2J FROM events"], "query, column 8: expected an expression"),
        (["{job}", "SELECT name FROM events", "--format", "xml"], "no form 'xml'"),
        (["{job}/nothing", "SELECT 1 FROM critical_path", "--set", "by=week"], "by: 'week' is not one of name, class"),
        (["{job}/nothing", "SELECT 1 FROM critical_path", "--set", "bye=event"], "no setting 'bye'; did you mean by="),
        (["{job}/nothing", "SELECT 1 FROM events", "--set", "by=event"], "no setting 'by'; settings are of analyses"),
        (["--tables", "critical_path", "kernels", "--set", "by=grid"], " critical_path.by: 'grid' is not one of name"),
        (["--tables", "kernels", "--set", "kernels.by=week"], "kernels.by: 'week' is not one of name, grid, rank"),
        (["--tables", "kernels", "--set", "kernels.bye=grid"], "no setting 'kernels.bye'; did you mean kernels.by="),
        (["--tables", "kernels", "--set", "steps.bounds=mark"], "no setting 'steps.bounds'; no table here is steps"),
        (["--tables", "events", "--set", "events.by=name"], "no setting 'events.by'; settings are of analyses"),
        (["--tables", "evnts"], "no table 'evnts'; did you mean events?"),
        (["--tables", "--format", "markdown"], "--tables prints text alone, no markdown; leave --format out"),
    ],
)
def test_a_query_that_cannot_be_is_one_line(
    job: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], why: str
) -> None:
    assert main(["query", *(argument.format(job=job) for argument in arguments)]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert why in err
    assert "\x1b" not in err


def test_tables_are_listed_with_their_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["query", "--tables"]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    for table in ALL_TABLES:
        assert f"{table.name}: " in out
        assert all(f"\n  {column.name} " in out for column in table.columns)
    assert main(["query", "--tables", "breakdown", "--set", "by=step"]) == 0
    assert "\n  step " in capsys.readouterr().out
    main(["query", "--tables", "kernels", "breakdown", "--set", "kernels.by=class", "--set", "breakdown.by=step"])
    out = capsys.readouterr().out
    assert "\n  names " in out
    assert "\n  step " in out
    main(["query", "--tables", "hlo"])
    assert capsys.readouterr().out.startswith("hlo: ")


def test_a_query_comes_from_stdin(job: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "query", str(job), "-", "--format", "csv"],
        input="SELECT count(*)\nFROM events -- all\n", capture_output=True, encoding="utf-8", check=True,
    )  # fmt: skip
    assert done.stdout == "count\n16\n"


@pytest.mark.parametrize(
    ("said", "why"), first(1, (("SELECT 'é'".encode("latin-1"), b"not UTF-8"), (None, b"stdin is closed")))
)
def test_a_stdin_without_a_query_is_told_of_in_one_line(job: Path, said: bytes | None, why: bytes) -> None:
    command = " ".join(map(shlex.quote, [*COMMAND, "query", str(job), "-"])) + (" <&-" if said is None else "")
    done = subprocess.run(["/bin/sh", "-c", command], input=said, capture_output=True, check=False)
    assert done.returncode == 2
    assert why in done.stderr
    assert done.stderr.count(b"\n") == 1


def test_columns_of_a_query_have_names_that_markdown_leaves_alone(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["query", str(job), 'SELECT 1 AS "a|b", 2 AS c', "--format", "markdown"])
    header = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("| "))
    assert header == "| a\\|b | c |"


def test_a_long_word_is_no_analysis_and_no_path(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(job), "x" * 5_000]) == 2
    assert capsys.readouterr().err.startswith("tracehound: no analysis ")


def test_control_characters_of_a_query_are_made_visible(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["query", str(job), "SELECT '\x1b[31mred' AS color FROM ranks LIMIT 1"])
    assert "␛[31mred" in capsys.readouterr().out


def test_notes_are_folded_unless_all_are_asked_for(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folded, full = (
        "".join([capsys.readouterr().out for _ in [main(["summary", str(job), *more])]]) for more in ([], ["--notes"])
    )
    assert "notes (--notes shows them)" in folded
    assert "--notes" not in full
    assert len(full.splitlines()) > len(folded.splitlines())
