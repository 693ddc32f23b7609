"""What was not recorded (device work, steps, annotations), and what would have recorded it, as notes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, get_args

from tracehound.analysis.result import Scene
from tracehound.notes import Note, note, text_note
from tracehound.trace import Profiler


def no_steps(scene: Scene) -> Note:
    """That there are no steps, and how they are marked; or that none is marked in the window."""
    if scene.windowed and scene.steps.height:
        return note("no_steps_in_window")
    return note("no_steps_marked", profilers=_profilers(scene))


def no_annotations(scene: Scene) -> Note:
    """That there are no annotations, and how they are made."""
    return nothing(scene, note("no_annotations"), note("annotate_source", profilers=_profilers(scene)))


def _profilers(scene: Scene) -> tuple[str, ...]:
    """The profilers that recorded the files; all of them where there is no file."""
    return tuple(sorted(scene.profilers or get_args(Profiler)))


def nothing(scene: Scene, what: str | Note, remedy: str | Note) -> Note:
    """That there is nothing of a kind here, and what records it: in a window perhaps only the window has none."""
    what, remedy = (each if isinstance(each, Note) else text_note(each) for each in (what, remedy))
    return note("nothing_recorded", what=what, remedy=remedy, windowed=scene.windowed)


def why(facts: Iterable[Mapping[str, Any]]) -> Note | None:
    """Why PyTorch's files have no device activity, where they end early or tell that it was asked for; else None."""
    facts = list(facts)
    if any(each.get("severed") for each in facts):
        return note("file_ends_within_events")
    found = [(each.get("runtime"), each.get("family", "")) for each in facts]
    launching = {family for sort, family in found if sort == "launches"}
    if launching:
        return note("launches_without_device_work", family=launching.pop() if len(launching) == 1 else "")
    return note("calls_without_launches") if any(sort == "calls" for sort, _ in found) else None


def remedy(scene: Scene) -> Note:
    """What records device activity in PyTorch, or why it was not recorded."""
    return why(scene.facts) or _advice(scene, scene.facts, ("PyTorch",))


def _advice(scene: Scene, facts: Sequence[Mapping[str, Any]], profilers: tuple[str, ...]) -> Note:
    """How devices are recorded, and what these files have that may be of a device.

    PyTorch lists the devices that a process sees (`listed`), and tells of their memory (`allocated`).
    """
    return note(
        "record_devices",
        profilers=profilers,
        foreign=sum(each.get("foreign", 0) for each in facts),
        unread=sum(each.get("unread", 0) for each in facts),
        allocated=any(each.get("allocates") for each in facts),
        listed=not scene.pytorch or any(each.get("devices") for each in scene.facts),
    )


def silence(scene: Scene, ranks: Collection[int]) -> list[Note]:
    """What is said of these ranks; nothing where there are none."""
    if not ranks:
        return []
    hosts = scene.ranks.filter(scene.ranks["rank"].is_in(list(ranks)))["host"].unique().to_list()
    facts = [scene.facts[scene.hosts[host].part] for host in hosts]
    reason = why(facts) or _advice(scene, facts, _profilers(scene))
    return [note("no_device_activity_on_ranks", ranks=tuple(ranks), why=reason)]
