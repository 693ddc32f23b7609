"""The command, as a person and as a pipe meet it."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from exporting import job, opened, own, rank, x
from short import first
from tracehound.analysis.analysis_run import run_analysis
from tracehound.analysis.steps import ANALYSIS
from tracehound.cli.main import main
from tracehound.errors import TracehoundError
from tracehound.export import EXPORT_FORMATS, ExportFormat, find_format
from tracehound.progress_line import ProgressLine


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "job").mkdir()
    job(tmp_path / "job", rank(0), rank(1))
    return tmp_path / "job"


def same(one: bytes, other: bytes, form: ExportFormat) -> bool:
    """Whether two exports are alike: Arrow leaves open what stands where there is no value."""
    if form.name == "arrow":
        return pl.read_ipc(io.BytesIO(one)).equals(pl.read_ipc(io.BytesIO(other)))
    return one == other


@pytest.mark.parametrize("form", first(3, EXPORT_FORMATS), ids=lambda form: form.name)
def test_the_name_says_the_form(folder: Path, form: ExportFormat, capsys: pytest.CaptureFixture[str]) -> None:
    out = folder.parent / f"out{form.suffix}"
    assert main(["export", str(folder), str(out)]) == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"tracehound: {out.name}: ")
    assert "events" in said.err
    assert main(["export", str(folder), str(out.with_suffix(".x")), "--format", form.name]) == 0
    assert same(out.with_suffix(".x").read_bytes(), out.read_bytes(), form)


def test_every_form_is_named_by_its_suffix_and_its_name() -> None:
    for form in EXPORT_FORMATS:
        assert find_format("", f"a.b{form.suffix.upper()}") is form
        assert find_format(form.name, "whatever") is form
    with pytest.raises(TracehoundError, match="there are json"):
        find_format("xml", "out.json")
    with pytest.raises(TracehoundError, match="or give --format"):
        find_format("", "out.perfetto")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([], "export which trace, to which file? tracehound export PATH... OUT"),
        (["{job}"], "export to which file? tracehound export PATH... OUT"),
        (["{job}", "{job}"], "lies in the folder that is read, and would be read with it"),
        (["{job}", "{job}/rank0.json"], "is the trace that is read; write to another file"),
        (["{job}", "{job}/rank0.json", "--force"], "is the trace that is read; write to another file"),
        (["{job}", "{job}/../there.json"], "exists already; --force replaces it"),
        (["{job}", "{job}/none/out.json"], "there is no such folder"),
        (["{job}", "out.json", "--rank", "7"], "no rank 7 in this trace; there are 0-1"),
        (["{job}", "out.json", "--format", "xml"], "no form 'xml'; there are json, json.gz, parquet, arrow, csv,"),
        (["{job}/none", "out.json"], "no such file"),
    ],
)
def test_what_cannot_be_is_one_line(
    folder: Path, words: list[str], why: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)
    (folder.parent / "there.json").write_text("{}")
    before = {path: path.read_bytes() for path in folder.parent.rglob("*.json")}
    assert main(["export", *(word.format(job=folder) for word in words)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert why in said.err
    assert {path: path.read_bytes() for path in folder.parent.rglob("*.*") if path.is_file()} == before


def test_a_trace_among_those_that_are_read_is_written_only_by_force(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for out in (folder / "out.json", folder / "deep" / "out.json.gz"):
        out.parent.mkdir(exist_ok=True)
        assert main(["export", str(folder), str(out)]) == 2
        said = capsys.readouterr().err
        assert said == (
            f"tracehound: {out}: lies in the folder that is read, and would be read with it; "
            "write it elsewhere, or anyway with --force\n"
        )
        assert not out.exists()
    assert main(["export", str(folder), str(folder / "out.csv")]) == 0
    assert "lies in" not in capsys.readouterr().err
    assert main(["export", str(folder), str(folder / "out.json"), "--force"]) == 0
    assert "lies in a folder that was read" in capsys.readouterr().err
    assert main(["export", str(folder / "rank0.json"), str(folder.parent / "out.json")]) == 0
    assert "lies in a folder" not in capsys.readouterr().err


def test_nothing_is_written_to_a_terminal(folder: Path) -> None:
    leader, follower = os.openpty()
    command = [sys.executable, "-m", "tracehound", "export", str(folder), "-", "--format", "csv"]
    ended = subprocess.run(command, stdout=follower, stderr=subprocess.PIPE, text=True, check=False)
    os.close(follower)
    os.set_blocking(leader, False)
    with pytest.raises(OSError, match=r"temporarily|Input/output"):  # nothing there
        os.read(leader, 1)
    os.close(leader)
    assert ended.returncode == 2
    assert ended.stderr == "tracehound: stdout is a terminal; name a file, or send it on, as in - | less\n"


def test_force_replaces(folder: Path) -> None:
    out = folder.parent / "out.json"
    out.write_text("old")
    assert main(["export", str(folder), str(out), "--force"]) == 0
    assert own(json.loads(out.read_bytes()))


def test_rank_step_and_window_narrow(folder: Path) -> None:
    out = folder.parent / "out.json"
    assert main(["export", str(folder), str(out), "--rank", "1", "--window", "9us..12us"]) == 0
    found = [event["name"] for event in own(json.loads(out.read_bytes())) if event["ph"] == "X"]
    assert found == ["k0", "PyTorch Profiler (0)"]


def test_a_step_is_exported_with_the_work_that_it_launched(tmp_path: Path) -> None:
    events = [
        x("user_annotation", "ProfilerStep#0", 0, 100),
        x("user_annotation", "ProfilerStep#1", 100, 100),
        *(x("cuda_runtime", "cudaLaunchKernel", at, 2, correlation=at) for at in (10, 50, 110, 150)),
        *(
            x("kernel", "gemm", start, 40, 0, 7, device=0, stream=7, correlation=at)
            for at, start in ((10, 20), (50, 90), (110, 130), (150, 240))
        ),
    ]
    source, out = tmp_path / "a.json", tmp_path / "out.json"
    source.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    whole = run_analysis(ANALYSIS, opened(source)).table.select("step", "duration", "compute", "idle")
    for step in (0, 1):
        assert main(["export", str(source), str(out), "--step", str(step), "--force", "--no-cache"]) == 0
        again = run_analysis(ANALYSIS, opened(out)).table.select(whole.columns)
        assert again.rows() == whole.filter(step=step).rows()


@pytest.mark.parametrize("form", first(1, EXPORT_FORMATS), ids=lambda form: form.name)
def test_a_pipe_gets_the_same_bytes(folder: Path, form: ExportFormat) -> None:
    out = folder.parent / f"out{form.suffix}"
    assert main(["export", str(folder), str(out)]) == 0
    command = [sys.executable, "-m", "tracehound", "export", str(folder), "-", "--format", form.name]
    found = subprocess.run(command, capture_output=True, timeout=600, check=True)
    assert same(found.stdout, out.read_bytes(), form)
    assert found.stderr.startswith(b"tracehound: stdout: ")


@pytest.mark.thorough
def test_a_pipe_that_closes_early_is_no_error(samples: Path) -> None:
    command = f"{sys.executable} -m tracehound export {samples / 'torch_stacks'} - | head -c 10"
    found = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, timeout=600, check=False)  # noqa: S607
    assert found.returncode == 0
    assert found.stderr in (b"", b"tracehound: stdout: ") or found.stderr.count(b"\n") == 1


def test_what_was_repaired_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(rank(0)).replace("10.125", "NaN", 1))
    assert main(["export", str(path), str(tmp_path / "out.json.gz")]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert "bad.json, byte" in lines[0]
    json.loads(gzip.decompress((tmp_path / "out.json.gz").read_bytes()))


def test_a_name_in_a_trace_cannot_speak_to_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "\x1b[31mbad.json"
    path.write_text(json.dumps(rank(0)).replace("10.125", "NaN", 1))
    out = tmp_path / "\x1b[31mout.json"
    assert main(["export", str(path), str(out)]) == 0
    assert "\x1b" not in capsys.readouterr().err


def test_how_far_it_is_is_one_line_that_goes_away() -> None:
    screen = io.StringIO()
    with ProgressLine(screen) as progress:
        progress.show_writing("out.json", 0.374)
        progress.show_writing("out.json", 0.375)
    assert screen.getvalue() == "\r\x1b[Kwriting out.json, 37 %\r\x1b[K"


def test_the_table_can_be_asked_again(folder: Path) -> None:
    out = folder.parent / "events.parquet"
    assert main(["export", str(folder), str(out)]) == 0
    with pl.SQLContext(events=pl.scan_parquet(out), eager=True) as context:
        found = context.execute("SELECT rank, sum(duration) AS busy FROM events WHERE work GROUP BY rank ORDER BY rank")
    assert found.rows() == [(0, 22_250_000), (1, 22_250_000)]
