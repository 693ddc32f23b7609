"""Files whose names are no text: bytes that are not UTF-8 stand in every file system of Linux."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from exploring import explored
from short import some
from tracehound.cli.main import main
from tracehound.store import open_trace_files

NAMES = {
    "whole": b"r\xe9nk0.pt.trace.json.gz",
    "cut": b"r\xe9nk0.pt.trace.json.gz",
    "memory": b"m\xe9m.raw.json",
    "xplane": b"h\xe9st.xplane.pb",
    "foreign": b"n\xe9thing.pt.trace.json",
}


@pytest.fixture(params=some(NAMES, ("cut",)))
def folder(request: pytest.FixtureRequest, samples: Path, tmp_path: Path) -> Path:
    (trace,) = (samples / "torch_stacks").glob("*.gz")
    (profile,) = (samples / "torch_xla_single").rglob("*.xplane.pb")
    contents = {
        "whole": trace.read_bytes(),
        "cut": trace.read_bytes()[: trace.stat().st_size // 2],
        "memory": b"[[1790000000000000000, 2, 1048576, 0], [1790000000001000000, 4, -1048576, 1], [179000",
        "xplane": profile.read_bytes(),
        "foreign": b"{}",
    }
    (made := tmp_path / "run").mkdir()
    (made / os.fsdecode(NAMES[request.param])).write_bytes(contents[request.param])
    if request.param == "foreign":
        (made / "whole.pt.trace.json").write_bytes(gzip.decompress(trace.read_bytes()))
    return made


def test_their_traces_are_told_of_and_kept(
    folder: Path, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    commands = [
        ["summary", "{}"],
        ["report", "{}", "health", "--format", "json"],
        ["report", "{}", "health", "--format", "csv"],
        ["query", "{}", "SELECT * FROM lanes"],
        ["check", "{}", "--save-baseline", str(tmp_path / "base.json")],
        ["diff", "{}", "{}"],
        ["export", "{}", str(tmp_path / "out.json")],
    ]
    for command in commands:
        for _ in range(2):  # read, and out of the cache
            status = main(
                [word.replace("{}", str(folder)) for word in command] + ["--force"] * (command[0] == "export")
            )
            out, err = capfdbinary.readouterr()
            assert status in (0, 2), (command, err)
            assert b"Error" not in out + err, (command, err)
            (out + err).decode("utf-8")


@pytest.mark.thorough
async def test_they_are_explored(folder: Path) -> None:
    async with explored(open_trace_files([folder])) as (explorer, _):
        assert explorer.trace is not None
        assert explorer.trace.parts
