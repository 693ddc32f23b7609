"""Sentences that explain an instruction: a collective, a copy between memories, a fusion.

Owns these sentences and the names of reductions. Knows no layout of a page. `present` are the ordinals of the devices
in the profile, empty where the profile does not tell devices apart. If their number equals that of the program's
devices, all of them are present; if it is smaller, devices of one host have the ids of their ordinals.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import chain
from typing import Final

from tracehound.formats.hlo.hlo_instructions import DEVICE_ASSIGNMENT
from tracehound.formats.hlo.hlo_shape import HloShape, memory_space_name
from tracehound.formats.hlo.replica_groups import DeviceGroups, groups_by_position, read_device_assignment
from tracehound.hlo.hlo_module import (
    PARAMETER_NUMBER,
    CollectiveGroups,
    HloModule,
    Instruction,
    collective_groups,
    source_target_pairs,
)
from tracehound.hlo.neighborhood import count_inner_opcodes
from tracehound.model.units import count_noun, format_bytes, format_count

REDUCTION_NAMES: Final = {
    "add": "sum", "multiply": "product", "maximum": "maximum", "minimum": "minimum", "and": "logical and",
    "or": "logical or", "xor": "exclusive or",
}  # fmt: skip

_COLLECTIVE_SENTENCES: Final = {
    "all-reduce": "every device ends with the {what} over its group",
    "reduce-scatter": "every device ends with its own part of the {what} over its group",
    "all-gather": "every device ends with the parts of all devices of its group, joined",
    "all-to-all": "every device sends a part to each device of its group",
    "ragged-all-to-all": "every device sends parts of different sizes to the devices of its group",
    "collective-permute": "devices send to others, pair by pair",
    "collective-broadcast": "the first device of a group sends to the others of it",
}

_NUMBERING_NAMES: Final = {
    "replica": "replicas",
    "partition": "partitions",
    "device": "positions in the device assignment",
    "replica of all partitions": "replicas, each with all of its partitions",
}

MAX_LISTED: Final = 16
"""Groups, pairs or members that are written out."""


def describe_instruction(module: HloModule, instruction: Instruction, present: Collection[int] = ()) -> list[str]:
    """Sentences about the instruction."""
    begun = _start_of_async(module, instruction)
    if begun.collective:
        return list(_describe_collective(module, begun, present))
    if begun.opcode.startswith("copy"):
        return list(_describe_copy(module, begun))
    return list(_describe_inner_computations(module, instruction))


def reduction_name(module: HloModule, number: int) -> str:
    """The name of the computation that combines two values: ``sum``; for unknown ones its instructions."""
    called = module.computations[number]
    row, passed = called.root, 0
    while (
        row is not None
        and module.opcodes[row] in ("convert", "bitcast")
        and module.operands[row]
        and passed < MAX_LISTED
    ):
        row, passed = module.operands[row][0], passed + 1
    if row is not None and module.opcodes[row] in REDUCTION_NAMES and _operands_are_parameters(module, row):
        inner = module.instruction(row).shape
        word = (
            "any" if inner.element == "pred" and module.opcodes[row] == "or" else REDUCTION_NAMES[module.opcodes[row]]
        )
        return f"{word}, in {inner.element}" if passed else word
    inside = [module.opcodes[each] for each in called.rows if module.opcodes[each] != "parameter"]
    return f"result of %{called.name} ({', '.join(inside[:MAX_LISTED])})"


def device_assignment(module: HloModule) -> tuple[Sequence[int], int, int]:
    """The device ids by replica and partition, the number of replicas, and the number of partitions."""
    proto = module.head.submessage(DEVICE_ASSIGNMENT)
    replicas = read_device_assignment(proto) if proto else []
    return [*chain(*replicas)], len(replicas), len(replicas[0]) if replicas else 0


def groups_phrase(groups: DeviceGroups) -> str:
    """``4 groups of 2: {0,4} {1,5} {2,6} {3,7}``."""
    sizes = sorted({len(group) for group in groups})
    size = str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    shown = " ".join(map(_device_ids_text, groups[:MAX_LISTED]))
    more = f" and {format_count(len(groups) - MAX_LISTED)} more" if len(groups) > MAX_LISTED else ""
    return f"{count_noun(len(groups), 'group')} of {size}: {shown}{more}"


def _start_of_async(module: HloModule, instruction: Instruction) -> Instruction:
    """The start of an asynchronous op for its end, which carries the attributes; other instructions themselves."""
    operands = module.operands[instruction.row]
    if instruction.opcode.endswith("-done") and operands:
        return module.instruction(operands[0])
    return instruction


def _operands_are_parameters(module: HloModule, row: int) -> bool:
    """True where both operands are parameters, or conversions of parameters."""
    rows = list(module.operands[row])
    for at, each in enumerate(rows):
        if module.opcodes[each] == "convert" and module.operands[each]:
            rows[at] = module.operands[each][0]
    return len(rows) == 2 and all(module.opcodes[each] == "parameter" for each in rows)


def _describe_collective(module: HloModule, instruction: Instruction, present: Collection[int]) -> Iterator[str]:
    """Sentences about a collective: its operation, its groups, its bytes."""
    what = " and the ".join(dict.fromkeys(reduction_name(module, number) for number in module.calls[instruction.row]))
    yield f"{instruction.opcode}: {_COLLECTIVE_SENTENCES[instruction.collective].format(what=what or 'result')}"
    if (note := _async_sentence(module, instruction)) is not None:
        yield note
    groups, named = None, False
    if instruction.collective == "collective-permute":
        yield _pairs_phrase(source_target_pairs(instruction))
    elif (members := collective_groups(instruction)) is not None:
        groups, named = _device_groups(module, members), bool(members.groups)
        yield from _describe_groups(module, members)
    yield from _describe_bytes(module, instruction, groups)
    yield from _describe_profile_coverage(module, groups if named else None, present)


def _async_sentence(module: HloModule, instruction: Instruction) -> str | None:
    """A sentence about the end of an asynchronous op; None where it has none."""
    if not instruction.opcode.endswith("-start"):
        return None
    done = [
        module.names[user] for user in module.users.get(instruction.row, ()) if module.opcodes[user].endswith("-done")
    ]
    return f"it runs from %{instruction.name} to %{', %'.join(done)}, beside what lies between" if done else None


def _device_groups(module: HloModule, members: CollectiveGroups) -> DeviceGroups | None:
    """The groups by positions in the device assignment, or as they are where all of a group's numbers are devices.

    None where the devices of a group are unknown.
    """
    _, replicas, partitions = device_assignment(module)
    if members.groups is None:
        return None
    known = members.groups and members.mode != "replica of all partitions"
    return groups_by_position(members.groups, members.mode, replicas, partitions) or (members.groups if known else None)


def _describe_groups(module: HloModule, members: CollectiveGroups) -> Iterator[str]:
    """Sentences about the groups of a collective."""
    if members.groups is None:
        yield f"its groups are given as {members.form}, which does not fit together: they are not known"
        return
    devices, replicas, partitions = device_assignment(module)
    numbers = _NUMBERING_NAMES[members.mode]
    if not members.groups:
        there = groups_by_position((), members.mode, replicas, partitions)
        if there and len(there) > 1:
            each = "replica" if members.mode == "partition" else "partition"
            words = f"{groups_phrase(there)}; the numbers are {_NUMBERING_NAMES['device']}"
            yield f"one group of all {numbers} for each {each}: {words}"
            return
        everyone = f", which are {count_noun(len(devices), 'device')}" if devices else ""
        yield f"one group of all {numbers}{everyone}"
        return
    yield f"{groups_phrase(members.groups)}; the numbers are {numbers}"
    if members.form.startswith("mesh") or "<=" in members.form:
        yield f"HLO writes these groups as {members.form}"
    if devices:
        same = "" if list(devices) == list(range(len(devices))) else f": {_device_ids_text(devices)}"
        size = f"{format_count(replicas)} x {format_count(partitions)}"
        yield f"the program runs on {size} devices (replicas x partitions){same}"


def _pairs_phrase(pairs: DeviceGroups) -> str:
    """The transfers of a collective-permute, and the ring that they form."""
    shown = ", ".join(f"{pair[0]} to {pair[1]}" for pair in pairs[:MAX_LISTED])
    more = f" and {format_count(len(pairs) - MAX_LISTED)} more" if len(pairs) > MAX_LISTED else ""
    after = {pair[0]: pair[1] for pair in pairs}
    at, steps = (pairs[0][1], 1) if pairs else (0, 0)
    while pairs and at != pairs[0][0] and at in after and steps < len(pairs):
        at, steps = after[at], steps + 1
    ring = pairs and len(after) == len(pairs) == steps and at == pairs[0][0] and steps > 1
    return f"{count_noun(len(pairs), 'transfer')}: {shown}{more}{f'; a ring of {steps}' if ring else ''}"


def _describe_bytes(module: HloModule, instruction: Instruction, groups: DeviceGroups | None) -> Iterator[str]:
    """Sentences about the bytes of a collective, and those that a ring sends from each device."""
    given = [module.instruction(row).shape for row in module.operands[instruction.row]]
    gives = sum(shape.bytes for shape in given)
    parts = sum(1 for shape in given for _ in shape.arrays)
    gathers = instruction.collective == "all-gather"
    number = max(map(len, groups or ()), default=0)
    whole = gives * number if gathers else gives
    what = (
        f"{format_bytes(gives)} in {format_count(parts)} arrays"
        if parts > 1
        else f"{format_bytes(gives)} ({_first_array_text(given)})"
    )
    yield f"each device gives {what}" + (f", and has {format_bytes(whole)} after it" if gathers and number > 1 else "")
    if instruction.collective in ("all-reduce", "reduce-scatter", "all-gather", "all-to-all") and number:
        sent = whole * (number - 1) * (2 if instruction.collective == "all-reduce" else 1) // number
        yield f"a ring of {number} sends {format_bytes(sent)} from each device"


def _first_array_text(given: Sequence[HloShape]) -> str:
    """The first array of these shapes."""
    return next((leaf.text for shape in given for leaf in shape.arrays), "nothing")


def _describe_profile_coverage(
    module: HloModule, groups: DeviceGroups | None, present: Collection[int]
) -> Iterator[str]:
    """Sentences about the devices of the collective that are not in this profile."""
    devices, _, _ = device_assignment(module)
    if not devices or not present:
        return
    if len(present) >= len(devices):
        yield f"all of its devices are in this profile: {format_count(len(devices))}"
        return
    here = format_count(len(present))
    yield f"the program runs on {count_noun(len(devices), 'device')}, of which {here} are in this profile"
    if len(set(present)) < len(present) or not set(present) <= set(devices):
        return  # devices of several hosts, whose ordinals do not tell which is which
    known = [group for group in groups or () if all(0 <= at < len(devices) for at in group)]
    crossing = [group for group in known if len({devices[at] in set(present) for at in group}) > 1]
    if crossing:
        groups_of = f"{format_count(len(crossing))} of {format_count(len(known))} groups"
        yield f"{groups_of} reach devices that are not: those of another host"
    elif known:
        yield "no group has both devices of this profile and others"


def _describe_copy(module: HloModule, instruction: Instruction) -> Iterator[str]:
    """Sentences about a copy from one memory to another."""
    if not module.operands[instruction.row]:
        return
    source = module.instruction(module.operands[instruction.row][0]).shape
    result = next(instruction.shape.arrays, instruction.shape)
    before, after = next(source.arrays, source).memory_space, result.memory_space
    if before != after:
        yield f"copies {format_bytes(result.bytes)} from {memory_space_name(before)} to {memory_space_name(after)}"
        if 5 in (before, after):
            yield "it runs over the link between device and host, not at the speed of the device's memory"
    if (note := _async_sentence(module, instruction)) is not None:
        yield note


def _describe_inner_computations(module: HloModule, instruction: Instruction) -> Iterator[str]:
    """Sentences about the inside of a fusion, a reduction, a parameter."""
    inside = count_inner_opcodes(module, instruction.row)
    if instruction.opcode == "fusion":
        number = sum(inside.values())
        told = ", ".join(f"{format_count(times)} {opcode}" for opcode, times in inside.most_common(MAX_LISTED))
        yield f"{instruction.category} of {count_noun(number, 'instruction')}: {told}"
    elif instruction.opcode in ("reduce", "reduce-window", "scatter", "select-and-scatter"):
        made = dict.fromkeys(reduction_name(module, number) for number in module.calls[instruction.row])
        yield f"{instruction.opcode}: values that meet become their {' and '.join(made)}"
    if instruction.opcode == "parameter":
        callers = module.callers.get(module.computation_of(instruction.row).number, ())
        at = instruction.fields.number(PARAMETER_NUMBER)
        for caller in list(callers)[:MAX_LISTED]:
            if module.opcodes[caller] == "fusion" and 0 <= at < len(module.operands[caller]):
                yield f"stands for %{module.names[module.operands[caller][at]]} in %{module.names[caller]}"


def _device_ids_text(devices: Sequence[int]) -> str:
    """Device ids in braces."""
    shown = ",".join(map(str, devices[: MAX_LISTED * 2]))
    return f"{{{shown},...}}" if len(devices) > MAX_LISTED * 2 else f"{{{shown}}}"
