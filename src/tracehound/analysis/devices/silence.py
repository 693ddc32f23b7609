"""What was not recorded (device work, steps, annotations), and what would have recorded it, as notes."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import get_args

from tracehound.analysis.result import Scene
from tracehound.file_facts import FileFacts, HostOnly
from tracehound.notes import Note, note
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


def nothing(scene: Scene, what: Note, remedy: Note) -> Note:
    """That there is nothing of a kind here, and what records it: in a window perhaps only the window has none."""
    return note("nothing_recorded", what=what, remedy=remedy, windowed=scene.windowed)


def why(facts: Iterable[FileFacts]) -> Note | None:
    """Why PyTorch's files have no device activity, where they end early or tell that it was asked for; else None."""
    known = _host_only(facts)
    if any(each.severed for each in known):
        return note("file_ends_within_events")
    launching = {each.family for each in known if each.runtime == "launches"}
    if launching:
        return note("launches_without_device_work", family=launching.pop() if len(launching) == 1 else "")
    return note("calls_without_launches") if any(each.runtime == "calls" for each in known) else None


def _host_only(facts: Iterable[FileFacts]) -> list[HostOnly]:
    return [each.host_only for each in facts if each.host_only is not None]


def remedy(scene: Scene) -> Note:
    """What records device activity in PyTorch, or why it was not recorded."""
    return why(scene.facts) or _advice(scene, scene.facts, ("PyTorch",))


def _advice(scene: Scene, facts: Iterable[FileFacts], profilers: tuple[str, ...]) -> Note:
    """How devices are recorded, and what these files have that may be of a device.

    PyTorch lists the devices that a process sees (`listed`), and tells of their memory (`allocated`).
    """
    found = _host_only(facts)
    return note(
        "record_devices",
        profilers=profilers,
        foreign=sum(each.foreign for each in found),
        unread=sum(each.unread for each in found),
        allocated=any(each.allocates for each in found),
        listed=not scene.pytorch or any(each.devices for each in scene.facts),
    )


def silence(scene: Scene, ranks: Collection[int]) -> list[Note]:
    """What is said of these ranks; nothing where there are none."""
    if not ranks:
        return []
    hosts = scene.ranks.filter(scene.ranks["rank"].is_in(list(ranks)))["host"].unique().to_list()
    facts = [scene.facts[scene.hosts[host].part] for host in hosts]
    reason = why(facts) or _advice(scene, facts, _profilers(scene))
    return [note("no_device_activity_on_ranks", ranks=tuple(ranks), why=reason)]
