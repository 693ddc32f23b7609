"""Which devices take part in a collective together, and what the numbers that name them stand for."""

from __future__ import annotations

from msgspec import Struct

from tracehound.formats.hlo.members import CHANNEL, GLOBAL_IDS, Groups, Numbers, groups_of, numbers_of
from tracehound.hlo.instruction import Instruction

PAIRS = 52


class Members(Struct, frozen=True):
    """Who takes part. `groups` is empty where all do, None where the proto says it in no way that is known here.

    `form` is how HLO writes them: ``{{0,1},{2,3}}`` or ``[4,2]<=[2,4]T(1,0)``. `mode` says what the numbers are.
    """

    groups: Groups | None
    form: str
    mode: Numbers


def members_of(instruction: Instruction) -> Members | None:
    """Who takes part in a collective; None where the proto has no groups at all, as a ``-done`` has none."""
    fields = instruction.fields
    groups, form = groups_of(fields)
    if not form and not instruction.collective:
        return None
    mode = numbers_of(instruction.collective, fields.number(CHANNEL), fields.number(GLOBAL_IDS))
    return Members(groups, form, mode)


def pairs_of(instruction: Instruction) -> Groups:
    """Source and target of each transfer of a collective-permute."""
    return tuple((pair.number(1), pair.number(2)) for pair in instruction.fields.all(PAIRS))
