"""What an instruction does, in sentences: a collective, a copy between memories, a fusion.

Owns these sentences and the meaning of reductions. Knows no layout of a page. `present` are the ordinals of the devices
in the profile, one for each, none where the profile does not tell devices apart. As many as the program runs on are all
of them; of fewer, those of one host have the device ids of their ordinals.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import chain
from typing import Final

from tracehound.formats.hlo.located import ASSIGNED
from tracehound.formats.hlo.members import Groups, placed, replicas_of
from tracehound.formats.hlo.shape import Shape, space_name
from tracehound.hlo.groups import Members, members_of, pairs_of
from tracehound.hlo.instruction import PARAMETER, Instruction
from tracehound.hlo.module import Module
from tracehound.hlo.walk import makeup
from tracehound.units import bytes_, count, plural

REDUCTIONS: Final = {
    "add": "sum", "multiply": "product", "maximum": "maximum", "minimum": "minimum", "and": "logical and",
    "or": "logical or", "xor": "exclusive or",
}  # fmt: skip

_DOES: Final = {
    "all-reduce": "every device ends with the {what} over its group",
    "reduce-scatter": "every device ends with its own part of the {what} over its group",
    "all-gather": "every device ends with the parts of all devices of its group, joined",
    "all-to-all": "every device sends a part to each device of its group",
    "ragged-all-to-all": "every device sends parts of different sizes to the devices of its group",
    "collective-permute": "devices send to others, pair by pair",
    "collective-broadcast": "the first device of a group sends to the others of it",
}

_NUMBERS: Final = {
    "replica": "replicas",
    "partition": "partitions",
    "device": "positions in the device assignment",
    "replica of all partitions": "replicas, each with all of its partitions",
}

SHOWN: Final = 16
"""Groups, pairs or members that are written out."""


def sentences(module: Module, instruction: Instruction, present: Collection[int] = ()) -> list[str]:
    """What the instruction does."""
    begun = _begun(module, instruction)
    if begun.collective:
        return list(_collective(module, begun, present))
    if begun.opcode.startswith("copy"):
        return list(_copy(module, begun))
    return list(_calls(module, instruction))


def reduction(module: Module, number: int) -> str:
    """What a computation makes of two values: ``sum``; of others its instructions."""
    called = module.computations[number]
    row, passed = called.root, 0
    while row is not None and module.opcodes[row] in ("convert", "bitcast") and module.operands[row] and passed < SHOWN:
        row, passed = module.operands[row][0], passed + 1
    if row is not None and module.opcodes[row] in REDUCTIONS and _of_parameters(module, row):
        inner = module.instruction(row).shape
        word = "any" if inner.element == "pred" and module.opcodes[row] == "or" else REDUCTIONS[module.opcodes[row]]
        return f"{word}, in {inner.element}" if passed else word
    inside = [module.opcodes[each] for each in called.rows if module.opcodes[each] != "parameter"]
    return f"result of %{called.name} ({', '.join(inside[:SHOWN])})"


def assignment(module: Module) -> tuple[Sequence[int], int, int]:
    """The device ids in the order of replicas and, in them, partitions; how many replicas and partitions there are."""
    proto = module.head.one(ASSIGNED)
    replicas = replicas_of(proto) if proto else []
    return [*chain(*replicas)], len(replicas), len(replicas[0]) if replicas else 0


def group_words(groups: Groups) -> str:
    """``4 groups of 2: {0,4} {1,5} {2,6} {3,7}``."""
    sizes = sorted({len(group) for group in groups})
    size = str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    shown = " ".join("{" + ",".join(map(str, group[:SHOWN * 2])) + (",...}" if len(group) > SHOWN * 2 else "}")
                     for group in groups[:SHOWN])  # fmt: skip
    more = f" and {count(len(groups) - SHOWN)} more" if len(groups) > SHOWN else ""
    return f"{plural(len(groups), 'group')} of {size}: {shown}{more}"


def _begun(module: Module, instruction: Instruction) -> Instruction:
    """Of the end of an asynchronous op its start, which says what it does."""
    operands = module.operands[instruction.row]
    if instruction.opcode.endswith("-done") and operands:
        return module.instruction(operands[0])
    return instruction


def _of_parameters(module: Module, row: int) -> bool:
    """Whether the operands are parameters, or conversions of them."""
    rows = list(module.operands[row])
    for at, each in enumerate(rows):
        if module.opcodes[each] == "convert" and module.operands[each]:
            rows[at] = module.operands[each][0]
    return len(rows) == 2 and all(module.opcodes[each] == "parameter" for each in rows)


def _collective(module: Module, instruction: Instruction, present: Collection[int]) -> Iterator[str]:
    what = " and the ".join(dict.fromkeys(reduction(module, number) for number in module.calls[instruction.row]))
    yield f"{instruction.opcode}: {_DOES[instruction.collective].format(what=what or 'result')}"
    if (note := _asynchronous(module, instruction)) is not None:
        yield note
    groups, named = None, False
    if instruction.collective == "collective-permute":
        yield _pairs(pairs_of(instruction))
    elif (members := members_of(instruction)) is not None:
        groups, named = _placed(module, members), bool(members.groups)
        yield from _members(module, members)
    yield from _size(module, instruction, groups)
    yield from _reach(module, groups if named else None, present)


def _asynchronous(module: Module, instruction: Instruction) -> str | None:
    if not instruction.opcode.endswith("-start"):
        return None
    done = [
        module.names[user] for user in module.users.get(instruction.row, ()) if module.opcodes[user].endswith("-done")
    ]
    return f"it runs from %{instruction.name} to %{', %'.join(done)}, beside what lies between" if done else None


def _placed(module: Module, members: Members) -> Groups | None:
    """The groups by positions in the device assignment, or as they are where all of a group's numbers are devices.

    None where nobody knows how many devices a group has.
    """
    _, replicas, partitions = assignment(module)
    if members.groups is None:
        return None
    known = members.groups and members.mode != "replica of all partitions"
    return placed(members.groups, members.mode, replicas, partitions) or (members.groups if known else None)


def _members(module: Module, members: Members) -> Iterator[str]:
    if members.groups is None:
        yield f"its groups are given as {members.form}, which does not fit together: they are not known"
        return
    devices, replicas, partitions = assignment(module)
    numbers = _NUMBERS[members.mode]
    if not members.groups:
        there = placed((), members.mode, replicas, partitions)
        if there and len(there) > 1:
            each = "replica" if members.mode == "partition" else "partition"
            words = f"{group_words(there)}; the numbers are {_NUMBERS['device']}"
            yield f"one group of all {numbers} for each {each}: {words}"
            return
        everyone = f", which are {plural(len(devices), 'device')}" if devices else ""
        yield f"one group of all {numbers}{everyone}"
        return
    yield f"{group_words(members.groups)}; the numbers are {numbers}"
    if members.form.startswith("mesh") or "<=" in members.form:
        yield f"HLO writes these groups as {members.form}"
    if devices:
        same = "" if list(devices) == list(range(len(devices))) else f": {_ids(devices)}"
        yield f"the program runs on {count(replicas)} x {count(partitions)} devices (replicas x partitions){same}"


def _pairs(pairs: Groups) -> str:
    shown = ", ".join(f"{pair[0]} to {pair[1]}" for pair in pairs[:SHOWN])
    more = f" and {count(len(pairs) - SHOWN)} more" if len(pairs) > SHOWN else ""
    after = {pair[0]: pair[1] for pair in pairs}
    at, steps = (pairs[0][1], 1) if pairs else (0, 0)
    while pairs and at != pairs[0][0] and at in after and steps < len(pairs):
        at, steps = after[at], steps + 1
    ring = pairs and len(after) == len(pairs) == steps and at == pairs[0][0] and steps > 1
    return f"{plural(len(pairs), 'transfer')}: {shown}{more}{f'; a ring of {steps}' if ring else ''}"


def _size(module: Module, instruction: Instruction, groups: Groups | None) -> Iterator[str]:
    """How many bytes, and how many of them a ring moves from each device."""
    given = [module.instruction(row).shape for row in module.operands[instruction.row]]
    gives = sum(shape.bytes for shape in given)
    parts = sum(1 for shape in given for _ in shape.leaves)
    gathers = instruction.collective == "all-gather"
    number = max(map(len, groups or ()), default=0)
    whole = gives * number if gathers else gives
    what = f"{bytes_(gives)} in {count(parts)} arrays" if parts > 1 else f"{bytes_(gives)} ({_one(given)})"
    yield f"each device gives {what}" + (f", and has {bytes_(whole)} after it" if gathers and number > 1 else "")
    if instruction.collective in ("all-reduce", "reduce-scatter", "all-gather", "all-to-all") and number:
        sent = whole * (number - 1) * (2 if instruction.collective == "all-reduce" else 1) // number
        yield f"a ring of {number} sends {bytes_(sent)} from each device"


def _one(given: Sequence[Shape]) -> str:
    return next((leaf.text for shape in given for leaf in shape.leaves), "nothing")


def _reach(module: Module, groups: Groups | None, present: Collection[int]) -> Iterator[str]:
    """Whether it leaves the devices of this profile."""
    devices, _, _ = assignment(module)
    if not devices or not present:
        return
    if len(present) >= len(devices):
        yield f"all of its devices are in this profile: {count(len(devices))}"
        return
    yield f"the program runs on {plural(len(devices), 'device')}, of which {count(len(present))} are in this profile"
    if len(set(present)) < len(present) or not set(present) <= set(devices):
        return  # devices of several hosts, whose ordinals do not tell which is which
    known = [group for group in groups or () if all(0 <= at < len(devices) for at in group)]
    crossing = [group for group in known if len({devices[at] in set(present) for at in group}) > 1]
    if crossing:
        groups_of = f"{count(len(crossing))} of {count(len(known))} groups"
        yield f"{groups_of} reach devices that are not: those of another host"
    elif known:
        yield "no group has both devices of this profile and others"


def _copy(module: Module, instruction: Instruction) -> Iterator[str]:
    """From which memory to which."""
    if not module.operands[instruction.row]:
        return
    source = module.instruction(module.operands[instruction.row][0]).shape
    result = next(instruction.shape.leaves, instruction.shape)
    before, after = next(source.leaves, source).memory, result.memory
    if before != after:
        yield f"copies {bytes_(result.bytes)} from {space_name(before)} to {space_name(after)}"
        if 5 in (before, after):
            yield "it runs over the link between device and host, not at the speed of the device's memory"
    if (note := _asynchronous(module, instruction)) is not None:
        yield note


def _calls(module: Module, instruction: Instruction) -> Iterator[str]:
    """What is inside a fusion, a loop, a call."""
    inside = makeup(module, instruction.row)
    if instruction.opcode == "fusion":
        number = sum(inside.values())
        told = ", ".join(f"{count(times)} {opcode}" for opcode, times in inside.most_common(SHOWN))
        yield f"{instruction.category} of {plural(number, 'instruction')}: {told}"
    elif instruction.opcode in ("reduce", "reduce-window", "scatter", "select-and-scatter"):
        made = dict.fromkeys(reduction(module, number) for number in module.calls[instruction.row])
        yield f"{instruction.opcode}: values that meet become their {' and '.join(made)}"
    if instruction.opcode == "parameter":
        callers = module.callers.get(module.computation_of(instruction.row).number, ())
        at = instruction.fields.number(PARAMETER)
        for caller in list(callers)[:SHOWN]:
            if module.opcodes[caller] == "fusion" and 0 <= at < len(module.operands[caller]):
                yield f"stands for %{module.names[module.operands[caller][at]]} in %{module.names[caller]}"


def _ids(devices: Sequence[int]) -> str:
    shown = ",".join(map(str, devices[: SHOWN * 2]))
    return f"{{{shown},...}}" if len(devices) > SHOWN * 2 else f"{{{shown}}}"
