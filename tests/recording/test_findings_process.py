"""The process that makes findings of a recording once its files are there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tracehound.recording.findings_process import start_findings, write_findings

pytestmark = pytest.mark.thorough

NAMES = ["rank0.pt.trace.json.gz", "rank1.pt.trace.json.gz"]


def recorded_run(samples: Path, folder: Path) -> list[Path]:
    """The files of two ranks, of which the second has no name yet."""
    files = sorted((samples / "torch_ddp_gloo").iterdir())
    for file, name in zip(files, NAMES, strict=True):
        (folder / f".{name}").write_bytes(file.read_bytes())
    (folder / f".{NAMES[0]}").rename(folder / NAMES[0])
    return [folder / name for name in NAMES]


def test_findings_wait_for_the_last_rank(samples: Path, tmp_path: Path) -> None:
    *_, last = recorded_run(samples, tmp_path)
    with start_findings(tmp_path, NAMES) as process:
        assert process.poll() is None
        last.with_name(f".{last.name}").rename(last)
        assert process.wait(120) == 0
    text = (tmp_path / "findings.txt").read_text(encoding="utf-8")
    assert text.startswith("Findings · % of step time\n")
    assert "rank 1 is late" in text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["findings.txt", *NAMES]


def test_findings_say_that_ranks_are_missing(samples: Path, tmp_path: Path) -> None:
    recorded_run(samples, tmp_path)
    write_findings(tmp_path, NAMES, longest_wait=0)
    lines = (tmp_path / "findings.txt").read_text(encoding="utf-8").splitlines()
    assert lines[:2] == ["1 of 2 ranks wrote no file within 0 s", "Findings · % of step time"]


def test_a_report_that_fails_says_why_in_the_file(tmp_path: Path) -> None:
    write_findings(tmp_path, NAMES[:1], longest_wait=0)
    lines = (tmp_path / "findings.txt").read_text(encoding="utf-8").splitlines()
    assert lines[1].startswith("tracehound: ")
    assert "no trace in this folder" in lines[1]
