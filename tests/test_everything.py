"""Every real file that lies beside the checkout, through the headless face: a page, a table, or one clear line."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from tracehound.analysis import ANALYSES, Options, run
from tracehound.cli import main
from tracehound.errors import TracehoundError
from tracehound.store import load, open_paths

pytestmark = pytest.mark.slow

SHARED = Path(__file__).resolve().parents[2] / "shared"


def _files(*patterns: str) -> list[Path]:
    return sorted({path for pattern in patterns for path in SHARED.glob(pattern) if path.is_file()})


GOOD = _files(
    "traces/kineto/**/*.json*", "traces/xla/**/*.xplane.pb", "traces/xla/**/*.trace.json.gz",
    "captures/torch/*/*.pt.trace.json.gz", "captures/*/**/*.xplane.pb", "captures/*/**/*.trace.json.gz",
    "golden/two_rank/*/*.json",
)  # fmt: skip
BAD = _files("traces/broken/*", "traces/not_a_trace/*")


def tracehound(*words: str) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of a run in this process."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            status = main(list(words))
        except SystemExit as stop:
            status = stop.code if isinstance(stop.code, int) else 1
    return status, out.getvalue(), err.getvalue()


@pytest.mark.usefixtures("shared")
def test_there_is_something_to_walk() -> None:
    assert len(GOOD) > 50
    assert len(BAD) >= 11


@pytest.mark.parametrize("path", GOOD, ids=lambda p: str(p.relative_to(SHARED)))
def test_a_good_file(path: Path) -> None:
    trace = load(open_paths([path]))
    assert sum(frame.height for frame in trace.frames) > 0
    for analysis in ANALYSES:
        result = run(analysis, trace, options=Options(5))
        assert result.table.height or result.notes
    status, out, err = tracehound("summary", str(path), "--format", "json")
    assert (status, err) == (0, "")
    assert json.loads(out)["schema"].startswith("tracehound.summary/")


@pytest.mark.parametrize("path", BAD, ids=lambda p: p.name)
def test_a_bad_file(path: Path) -> None:
    status, out, err = tracehound("summary", str(path))
    assert "Traceback" not in out + err
    assert (status == 0 and out) or (status == 2 and not out and len(err.strip().splitlines()) == 1)


@pytest.mark.parametrize("path", [p for p in BAD if p.parent.name == "not_a_trace"], ids=lambda p: p.name)
def test_a_foreign_file_is_named(path: Path) -> None:
    with pytest.raises(TracehoundError, match="looks like"):
        open_paths([path])
