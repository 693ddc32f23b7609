"""Which devices take part in a collective together, and what the numbers that name them stand for."""

from __future__ import annotations

from dataclasses import dataclass

from tracehound.formats.hlo_members import Groups, groups_of
from tracehound.hlo.instruction import CHANNEL, Instruction

PAIRS, GLOBAL_IDS = 52, 71


@dataclass(frozen=True)
class Members:
    """Who takes part. `groups` is empty where all do, None where the proto says it in no way that is known here.

    `form` is how HLO writes them: ``{{0,1},{2,3}}`` or ``[4,2]<=[2,4]T(1,0)``. `mode` says what the numbers are:
    ``replica`` and ``partition`` ids, or positions in the flattened device assignment (``device``); a collective over
    partitions of replica groups is ``replica of all partitions``.
    """

    groups: Groups | None
    form: str
    mode: str


def members_of(instruction: Instruction) -> Members | None:
    """Who takes part in a collective; None where the proto has no groups at all, as a ``-done`` has none."""
    fields = instruction.fields
    groups, form = groups_of(fields)
    if not form and not instruction.collective:
        return None
    return Members(groups, form, _mode(instruction))


def pairs_of(instruction: Instruction) -> Groups:
    """Source and target of each transfer of a collective-permute."""
    return tuple((pair.number(1), pair.number(2)) for pair in instruction.fields.all(PAIRS))


def _mode(instruction: Instruction) -> str:
    """What the numbers are, as XLA decides it by channel and flag."""
    channel, flat = instruction.fields.number(CHANNEL), instruction.fields.number(GLOBAL_IDS)
    if not channel:
        return "replica"
    if instruction.collective in ("collective-permute", "all-to-all", "collective-broadcast", "ragged-all-to-all"):
        return "partition"
    return "device" if flat else "replica of all partitions"
