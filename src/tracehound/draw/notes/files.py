"""What notes say of the files of a trace: which were opened, their clocks and their ranks.

Owns the sentences for the codes that the store gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tracehound.draw.notes.sentence import Sentence
from tracehound.units import duration, plural, runs, several


def _placed_by_collectives(exact: int) -> str:
    return f"placed by the ends of collectives, to within {duration(exact)}: see clocks"


def _numbered_by_names(rank: int, files: int, ranks: tuple[int, ...]) -> str:
    return f"rank {rank} is claimed by {files} files: they are numbered by their names, as {runs(ranks)}"


def _numbered_anew(rank: int, files: int, ranks: tuple[int, ...]) -> str:
    return f"rank {rank} is claimed by {files} files: all but the first are numbered anew, as {runs(ranks)}"


def _ranks_not_recorded(*, from_names: bool) -> str:
    how = "from the file name" if from_names else "from the order of the files' names"
    return f"no rank recorded in the file: taken {how}"


def _devices_differ(models: tuple[str, ...]) -> str:
    return f"files of different devices, of which not all say that they are of one job: {several(models, 4)}"


def _hardly_one_run(*, apart: bool, unlike: bool) -> str:
    devices = "their devices differ" if apart else "files of different devices"
    why = ["the files do not overlap in time"] * apart + [devices] * unlike
    remedy = "all that is told is of them together: name one file, or choose with --rank"
    return f"hardly one run: {', and '.join(why)}; {remedy}"


def _clocks_apart(ranks: int, most: int) -> str:
    clocks = f"the clocks of {plural(ranks, 'rank')} are written as recorded"
    return f"{clocks}, off by up to {duration(most)} as the ends of collectives tell"


SENTENCES: Final[Mapping[str, Sentence]] = {
    "files_apart_in_time": "the files do not overlap in time: each is drawn from its own first event",
    "placed_by_collectives": _placed_by_collectives,
    "files_at_their_starts": "--align start: each is drawn from its own first event",
    "files_without_wall_clock": "not every file has a wall clock: each is drawn from its own first event",
    "memory_timeline_beside_trace": "a memory timeline beside a trace: open it by its name",
    "older_recordings": "recordings older than the one that is opened: each opens by its name",
    "newer_recordings": (
        "recordings newer than the one that is opened, which has more processes: each opens by its name"
    ),
    "twin_json_skipped": "JSON beside the xplane of its host is not read: it is made of that as a rule",
    "not_cached": "not kept in the cache: {why}",
    "file_not_read": "file not read: {why}",
    "path_refused": "{why}",
    "companion_file": "{why}",
    "run_opened": "run {run} opened; --run NAME opens another",
    "traces_in_subfolder": (
        "traces in a subfolder are not read with those beside it: name it, too, if they belong together"
    ),
    "equal_files": "equal files, each counted as ranks of its own: is one a copy?",
    "rank_claimed_numbered_by_names": _numbered_by_names,
    "rank_claimed_numbered_anew": _numbered_anew,
    "ranks_not_recorded": _ranks_not_recorded,
    "devices_differ": _devices_differ,
    "devices_of_one_rank": "several devices in a file of one rank: it is that of the one that works most",
    "devices_without_rank": "several devices and no rank recorded: they are counted through",
    "clocks_apart": _clocks_apart,
    "clocks_written_as_recorded": (
        "{clocks}: read back, nothing corrects them; --align collectives writes them corrected"
    ),
    "hardly_one_run": _hardly_one_run,
}
