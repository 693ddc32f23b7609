"""Every real file that lies beside the checkout, through the headless face: a page, a table, or one clear line."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from tracehound.analysis import ANALYSES, Options, run_analysis
from tracehound.cli.main import main
from tracehound.errors import TracehoundError
from tracehound.store import load_trace, open_trace_files
from tracehound.ui.explorer_app import ExplorerApp

pytestmark = pytest.mark.thorough

SHARED = Path(__file__).resolve().parents[2] / "shared"


def _files(*patterns: str) -> list[Path]:
    return sorted({path for pattern in patterns for path in SHARED.glob(pattern) if path.is_file()})


GOOD = _files(
    "traces/kineto/**/*.json*", "traces/xla/**/*.xplane.pb", "traces/xla/**/*.trace.json.gz",
    "captures/torch/*/*.pt.trace.json.gz", "captures/*/**/*.xplane.pb", "captures/*/**/*.trace.json.gz",
    "golden/two_rank/*/*.json",
)  # fmt: skip
ONCE = [path for path in GOOD if not (path.name.endswith(".trace.json.gz") and list(path.parent.glob("*.xplane.pb")))]
"""The good files, but for a `trace.json.gz` beside the `xplane.pb` of the same profile, of which less is tried."""


def _kind(path: Path) -> tuple[str, ...]:
    """The published run that a file is of; of what was recorded here, the recorder."""
    return path.relative_to(SHARED).parts[: 3 if path.is_relative_to(SHARED / "traces") else 2]


OF_EACH_KIND = list({_kind(path): path for path in ONCE}.values())
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
    trace = load_trace(open_trace_files([path]))
    assert int(trace.lanes["events"].sum()) > 0
    for analysis in ANALYSES if path in OF_EACH_KIND else ():
        result = run_analysis(analysis, trace, options=Options(5))
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
        open_trace_files([path])


@pytest.mark.parametrize("path", OF_EACH_KIND[::2], ids=lambda p: str(p.relative_to(SHARED)))
async def test_a_good_file_in_the_explorer(path: Path) -> None:
    """It opens, paints lanes, and every pane answers or says why it is empty."""
    app = ExplorerApp(open_trace_files([path]))
    async with app.run_test(size=(80, 24)) as pilot:
        for key in ("", "3", "enter", "4", "5", "6", "7", "8", "9", "2", "enter", "n"):
            if key:
                await pilot.press(key)
            await pilot.pause()
            while app.busy:
                await pilot.pause(0.02)
            await pilot.pause()
        assert app.explorer.trace is not None
        assert app.explorer.trace.lanes.height > 0
        assert app.return_code in (None, 0)
