"""Sentences of notes on steps: lengths, parts, critical path, and work launched in other steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tracehound.model.notes import SentenceTemplate
from tracehound.model.short_names import cut_middle, shorten_kernel_name
from tracehound.model.units import PS_PER_US, count_noun, format_duration, format_ranges, format_share

_NAME_LENGTH: Final = 40
"""Characters of a name in a note, enough for the names that bound a step."""

_ANALYSES_UNTIL_WORK_ENDS: Final = "steps, step_parts and critical_path count a step to the end of its work"

_FIGURES_WITHOUT_PARTIAL_STEPS: Final = {"mean": "the mean", "lengths": "these lengths", "figures": "these figures"}

_STEP_DEFINITIONS: Final = {
    "optimizer": "a step lasts from the end of one {name} to the end of the next",
    "graph": "a step lasts from one {name} to the next",
    "execution": "a step is one execution of {name}",
    "annotation": "a step is an annotation such as {name}",
}
"""Definition of an inferred step, by the type of the events of this name."""


def _list_shares(names: Sequence[str], parts: Sequence[float]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {format_share(part)}" for name, part in zip(names, parts, strict=True))


def _mean_step_parts(length: int, parts: tuple[str, ...], shares: tuple[float, ...]) -> str:
    return f"mean step time {format_duration(length)}: {_list_shares(parts, shares)}"


def _step_times(
    steps: int, ranks: int, median: int, p95: int, parts: tuple[str, ...], shares: tuple[float, ...]
) -> str:
    lengths = f"median {format_duration(median)}, p95 {format_duration(p95)}"
    text = f"{count_noun(steps, 'whole step')} on {count_noun(ranks, 'rank')}: {lengths}"
    return f"{text}; {_list_shares(parts, shares)}" if parts else text


def _step_lengths(
    steps: int, ranks: int, median: int, p95: int, least: int, most: int, *, whole: bool, phase: str = ""
) -> str:
    """`whole`: partial steps are left out; `phase`: the steps are those of a phase of inference."""
    shortest, longest = format_duration(least), format_duration(most)
    ends = longest if shortest == longest else f"{shortest} to {longest}"
    if steps == 1:
        return f"1 {'whole ' * whole}step on {count_noun(ranks, 'rank')}: {ends}"
    spread = f"median {format_duration(median)}, p95 {format_duration(p95)}, {ends}"
    spread = f"each {longest}" if shortest == longest else spread
    what = " ".join(filter(None, ("whole" * whole, phase, "step")))
    return f"{count_noun(steps, what)} on {count_noun(ranks, 'rank')}: {spread}"


def _median_by_marks(median: int) -> str:
    until = "steps last to the end of their work"
    return f"{until}; between their marks on the host (bounds=mark) the median is {format_duration(median)}"


def _median_by_steps_line(median: int) -> str:
    until = "steps last from the host's mark to the end of their work"
    return f"{until}; on the devices' own Steps line, as in XProf, the median is {format_duration(median)}"


def _partial_steps(steps: int, cut: int, of: str, *, unended: bool) -> str:
    """`cut` counts the steps with a missing part; `unended`: the end of the other steps is unknown."""
    whose = "its end" if steps == 1 else "the end of the last step" if cut else "the end of each (the last of a rank)"
    why = ["the recording began or ended inside, or work ran outside of it"] * bool(cut)
    why += [f"{whose} is unknown"] * unended
    return f"{count_noun(steps, 'partial step')} left out of {_FIGURES_WITHOUT_PARTIAL_STEPS[of]}: {'; '.join(why)}"


def _inferred_steps(source: str, name: str) -> str:
    return f"steps are inferred (none are marked): {_STEP_DEFINITIONS[source].format(name=name)}"


def _other_steps(
    steps: tuple[int, ...], others: float | None, outside: float | None, unknown: float | None, start: int, end: int
) -> str:
    """Shares of device work in the time of steps, None if negligible; see `other_step_work`."""
    which = f"step{'s' * (len(steps) > 1)} {format_ranges(steps)}"
    facts, sentences = list[str](), list[str]()
    if others is not None:
        facts.append(f"{format_share(others)} of the device work in this window was launched in other steps")
    if outside is not None:
        facts.append(f"{format_share(outside)} of the work that {which} launched ran outside of this window")
    if facts:
        window = f"--window {start // PS_PER_US}us..{-(-end // PS_PER_US)}us"
        whole = "" if outside is None else f"; {window} has all of it"
        sentences.append(
            f"{', and '.join(facts)}: the host runs ahead, and --step uses its marks; "
            f"{_ANALYSES_UNTIL_WORK_ENDS}{whole}"
        )
    if unknown is not None:
        lost = (
            f"{format_share(unknown)} of the device work in this window has no known launch and counts by its own time"
        )
        sentences.append(f"{lost}: it may belong to an earlier step")
    return "; ".join(sentences)


def _unknown_steps(part: float) -> str:
    when = "it counts for the step in which it ran, but may belong to an earlier one"
    return f"{format_share(part)} of device work has no known launch: {when}"


def _work_outside_marks(part: float) -> str:
    ahead = f"{format_share(part)} of the work that the steps launched ran outside of their marks"
    return f"{ahead}: the host runs ahead, and rows are cut at the marks; {_ANALYSES_UNTIL_WORK_ENDS}"


def _path_bound(
    rank: int, classes: tuple[str, ...], shares: tuple[float, ...], length: int, missing: int, of: str,
    steps: tuple[int, ...], step: str,
) -> str:  # fmt: skip
    """The path is `of` the window, the run, these steps, or the longest step, whose name is `step`."""
    where = {
        "window": "the window",
        "run": "the whole run",
        "steps": f"step {format_ranges(steps)}",
        "longest": f"{cut_middle(step, _NAME_LENGTH)}, the longest step",
    }[of]
    text = ", ".join(f"{name} {format_share(part)}" for name, part in zip(classes, shares, strict=True))
    less = f" without its first {format_duration(missing)}" if missing else ""
    return f"critical path of rank {rank}: {text} of {format_duration(length)} ({where}{less})"


def _path_unrecorded(rank: int, part: float) -> str:
    return f"rank {rank}: the host recorded nothing in {format_share(part)} of that time"


def _path_begins_late(rank: int, time: int, name: str) -> str:
    begins = f"rank {rank}: the path begins {format_duration(time)} late"
    return f"{begins}, since the trace does not show what {shorten_kernel_name(name, _NAME_LENGTH)} waited for"


def _path_wait_unknown(rank: int, name: str, time: int) -> str:
    event = shorten_kernel_name(name, _NAME_LENGTH)
    return f"rank {rank}, unknown: {event} waited {format_duration(time)}; the trace does not show for what"


SENTENCES: Final[Mapping[str, SentenceTemplate]] = {
    "mean_step_parts": _mean_step_parts,
    "step_times": _step_times,
    "step_lengths": _step_lengths,
    "median_by_marks": _median_by_marks,
    "median_by_steps_line": _median_by_steps_line,
    "partial_steps_left_out": _partial_steps,
    "inferred_steps": _inferred_steps,
    "steps_without_launches": ("device work has no recorded launches: it counts for the step in which it ran"),
    "no_xla_steps_in_pytorch_trace": ("a PyTorch trace has no XLA programs: see steps for its steps"),
    "no_device_steps": ("no steps on a device: mark them with StepTraceAnnotation or StepTrace, and profile devices"),
    "work_of_other_steps": _other_steps,
    "work_of_unknown_steps": _unknown_steps,
    "work_outside_marks": _work_outside_marks,
    "critical_path_bound": _path_bound,
    "more_ranks": "and {ranks:,} more ranks: choose with --rank",
    "critical_path_unrecorded": _path_unrecorded,
    "critical_path_begins_late": _path_begins_late,
    "critical_path_wait_unknown": _path_wait_unknown,
    "stream_waits_inferred": ("waits between streams are inferred (enable_cuda_sync_events records them)"),
    "no_path_in_xla_profile": "no critical path: an XLA profile does not record what each HLO op waited for",
    "no_path": "no critical path: no work was recorded",
}

HEADLINES: Final = frozenset(
    {
        "mean_step_parts",
        "step_times",
        "step_lengths",
        "critical_path_bound",
    }
)
"""Codes of notes that answer the question of their table, or say what its rows were chosen by."""

WARNINGS: Final = frozenset({"work_of_other_steps"})
"""Codes of notes on lost or doubtful data, whatever their level."""
