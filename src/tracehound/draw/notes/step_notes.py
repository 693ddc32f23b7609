"""The sentences of notes on steps: their lengths and parts, their critical path, and other steps' work in them.

Owns their words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tracehound.draw.notes.sentence import Sentence
from tracehound.units import PS_PER_US, duration, middle, plural, runs, share, short_name

_NAME: Final = 40
"""So many characters of a name are said in a note: what bounds the step should not be cut off."""

_FOLLOW: Final = "steps, step_parts and critical_path follow a step until its own work is done"

_LEFT_OUT_OF: Final = {"mean": "the average", "lengths": "these lengths", "figures": "these figures"}

_INFERRED: Final = {
    "optimizer": "a step lasts from the end of one {name} to the end of the next",
    "graph": "a step lasts from one {name} to the next",
    "execution": "a step is one execution of {name}",
    "annotation": "a step is an annotation such as {name}",
}
"""What a step is, by the sort of events of this name from which it was inferred."""


def _shares(names: Sequence[str], parts: Sequence[float]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {share(part)}" for name, part in zip(names, parts, strict=True))


def _mean_step_parts(length: int, parts: tuple[str, ...], shares: tuple[float, ...]) -> str:
    return f"an average step takes {duration(length)}: {_shares(parts, shares)}"


def _step_times(
    steps: int, ranks: int, median: int, p95: int, parts: tuple[str, ...], shares: tuple[float, ...]
) -> str:
    told = f"{plural(steps, 'whole step')} on {plural(ranks, 'rank')}: median {duration(median)}, p95 {duration(p95)}"
    return f"{told}; {_shares(parts, shares)}" if parts else told


def _step_lengths(steps: int, ranks: int, median: int, p95: int, least: int, most: int, *, whole: bool) -> str:
    """`whole` tells that partial steps are not among them."""
    spread = f"median {duration(median)}, p95 {duration(p95)}, {duration(least)} to {duration(most)}"
    return f"{plural(steps, 'whole step' if whole else 'step')} on {plural(ranks, 'rank')}: {spread}"


def _median_by_marks(median: int) -> str:
    until = "steps last until the work that they launched is done"
    return f"{until}: by their marks on the host alone (bounds=mark) the median is {duration(median)}"


def _partial_steps(steps: int, cut: int, of: str, *, unended: bool) -> str:
    """`cut` counts those of which a part is missing; `unended` tells that nothing says when the others ended."""
    verb, whose = ("is", "it") if steps == 1 else ("are", "the last" if cut else "each, the last of a rank,")
    why = ["the recording began or ended within, or the work ran outside"] * bool(cut)
    why += [f"nothing tells when {whose} ended"] * unended
    return f"{plural(steps, 'partial step')} {verb} left out of {_LEFT_OUT_OF[of]}: {'; '.join(why)}"


def _inferred_steps(source: str, name: str) -> str:
    return f"inferred: no marks; {_INFERRED[source].format(name=name)}"


def _other_steps(
    steps: tuple[int, ...], others: float | None, outside: float | None, unknown: float | None, start: int, end: int
) -> str:
    """Shares of the devices' work in the time of steps, None where they are next to nothing; see `other_steps`."""
    which = f"step{'s' * (len(steps) > 1)} {runs(steps)}"
    said, told = list[str](), list[str]()
    if others is not None:
        said.append(f"{share(others)} of the devices' work in this time was launched in other steps")
    if outside is not None:
        said.append(f"{share(outside)} of the work that {which} launched ran outside of this time")
    if said:
        window = f"--window {start // PS_PER_US}us..{-(-end // PS_PER_US)}us"
        whole = "" if outside is None else f"; all of it is in {window}"
        told.append(f"{', and '.join(said)}: the host runs ahead, and --step keeps to its marks; {_FOLLOW}{whole}")
    if unknown is not None:
        lost = f"{share(unknown)} of the devices' work in this time has no known launch and counts by when it ran"
        told.append(f"{lost}: it may be an earlier step's")
    return "; ".join(told)


def _unknown_steps(part: float) -> str:
    when = "its step is that in which it ran, if any, and it may be an earlier one's"
    return f"{share(part)} of the devices' work has no known launch: {when}"


def _work_outside_marks(part: float) -> str:
    ahead = f"{share(part)} of the work that the steps launched ran outside of their marks"
    return f"{ahead}: the host runs ahead, and these rows keep to the marks; {_FOLLOW}"


def _path_bound(
    rank: int, classes: tuple[str, ...], shares: tuple[float, ...], length: int, missing: int, of: str,
    steps: tuple[int, ...], step: str,
) -> str:  # fmt: skip
    """The path is `of` the window, the run, these steps, or the longest, which is called `step`."""
    where = {
        "window": "the window",
        "run": "the whole run",
        "steps": f"step {runs(steps)}",
        "longest": f"{middle(step, _NAME)}, the longest step",
    }[of]
    told = ", ".join(f"{name} {share(part)}" for name, part in zip(classes, shares, strict=True))
    less = f" less its first {duration(missing)}" if missing else ""
    return f"rank {rank} is bound by {told} of {duration(length)}: {where}{less}"


def _path_unrecorded(rank: int, part: float) -> str:
    return f"rank {rank}: on the host, nothing recorded in {share(part)} of that time"


def _path_begins_late(rank: int, time: int, name: str) -> str:
    begins = f"rank {rank}: the path begins {duration(time)} after the beginning"
    return f"{begins}: what {short_name(name, _NAME)} waited for was not recorded"


def _path_wait_unknown(rank: int, name: str, time: int) -> str:
    return f"rank {rank}, unknown: what {short_name(name, _NAME)} waited for, {duration(time)}, was not recorded"


SENTENCES: Final[Mapping[str, Sentence]] = {
    "mean_step_parts": _mean_step_parts,
    "step_times": _step_times,
    "step_lengths": _step_lengths,
    "median_by_marks": _median_by_marks,
    "partial_steps_left_out": _partial_steps,
    "inferred_steps": _inferred_steps,
    "steps_without_launches": (
        "what launched device work is not recorded: it counts for the step in whose time it ran"
    ),
    "no_xla_steps_in_pytorch_trace": ("a PyTorch Profiler file has no XLA programs: its steps are in the report steps"),
    "no_device_steps": (
        "no steps of a device here: mark them with StepTraceAnnotation or StepTrace, and profile devices"
    ),
    "work_of_other_steps": _other_steps,
    "work_of_unknown_steps": _unknown_steps,
    "work_outside_marks": _work_outside_marks,
    "critical_path_bound": _path_bound,
    "more_ranks": "and {ranks} more ranks: choose with --rank",
    "critical_path_unrecorded": _path_unrecorded,
    "critical_path_begins_late": _path_begins_late,
    "critical_path_wait_unknown": _path_wait_unknown,
    "stream_waits_inferred": (
        "inferred: what waited for which stream (profile with enable_cuda_sync_events to have it recorded)"
    ),
    "no_path_in_xla_profile": "no path: an XLA profile does not say what each HLO op waited for",
    "no_path": "no path: nothing that works was recorded here",
}
