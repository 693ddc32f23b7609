"""The neighborhood of an instruction as a tree: its operands, its users, the instructions inside it, its callers.

Owns the order of the tree's nodes. Knows no drawing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from msgspec import Struct

from tracehound.hlo.hlo_module import PARAMETER_NUMBER, HloModule

MAX_NODES: Final = 2_000
"""Nodes of one neighborhood; further ones are left out."""

ZERO_TIME_OPCODES: Final = frozenset({"parameter", "constant", "tuple", "get-tuple-element", "bitcast"})
"""Opcodes that take no time of their own."""


NeighborFunction = Callable[[HloModule, int], list[tuple[int, str]]]
"""Gives the neighbors of an instruction in one direction, and their relation to it."""


class NeighborhoodNode(Struct, frozen=True):
    """One node of a neighborhood: an instruction (`row`), and its relation to the node above it.

    `relation` is ``operand 0``, ``user``, ``inside``, ``caller`` or empty at the root; `note` has the operand that a
    parameter stands for, or says that the instruction is listed above or is the result.
    """

    depth: int
    row: int
    relation: str
    note: str = ""


def instruction_neighborhood(module: HloModule, row: int, depth: int) -> list[NeighborhoodNode]:
    """The instruction, those inside it, and operands and users up to `depth` away; at most `MAX_NODES` nodes."""
    found = [NeighborhoodNode(0, row, "")]
    for part in (
        inner_instructions(module, row),
        _walk_neighbors(module, row, depth, _operand_neighbors),
        _walk_neighbors(module, row, depth, _user_neighbors),
    ):
        for node in part:
            if len(found) >= MAX_NODES:
                return found
            found.append(node)
    found.extend(
        NeighborhoodNode(1, caller, "caller") for caller in module.callers.get(module.computation_of(row).number, ())
    )
    return found[:MAX_NODES]


def inner_instructions(module: HloModule, row: int) -> Iterator[NeighborhoodNode]:
    """The instructions of the computations that an instruction calls, in the order in which they run."""
    operands = module.operands[row]
    for number in module.calls[row]:
        called = module.computations[number]
        relation = "inside" if len(module.calls[row]) == 1 else f"inside {called.name}"
        for inner in module.scheduled_rows(called):
            takes = ", ".join(f"%{module.names[operand]}" for operand in module.operands[inner])
            if module.opcodes[inner] == "parameter" and module.opcodes[row] == "fusion":
                at = module.instruction(inner).fields.number(PARAMETER_NUMBER)
                takes = f"= %{module.names[operands[at]]}" if 0 <= at < len(operands) else ""
            yield NeighborhoodNode(1, inner, f"{relation}: result" if inner == called.root else relation, takes)


def count_inner_opcodes(module: HloModule, row: int) -> Counter[str]:
    """The number of instructions of each opcode inside, without parameters."""
    opcodes = (
        module.opcodes[inner] for number in module.calls[row] for inner in module.computations[number].rows
    )  # fmt: skip
    return Counter(opcode for opcode in opcodes if opcode != "parameter")


def _operand_neighbors(module: HloModule, row: int) -> list[tuple[int, str]]:
    """The operands of an instruction, each with its number."""
    return [(operand, f"operand {at}") for at, operand in enumerate(module.operands[row])]


def _user_neighbors(module: HloModule, row: int) -> list[tuple[int, str]]:
    """The users of an instruction."""
    return [(user, "user") for user in module.users.get(row, ())]


def _walk_neighbors(module: HloModule, row: int, depth: int, neighbors: NeighborFunction) -> Iterator[NeighborhoodNode]:
    """The nodes in one direction, depth first; a node that was listed already is not followed again."""
    listed = {row}
    pending = [(1, *step) for step in reversed(neighbors(module, row))] if depth > 0 else []
    while pending:
        at, here, relation = pending.pop()
        again = here in listed
        steps = neighbors(module, here) if at < depth and not again else []
        yield NeighborhoodNode(
            at, here, relation, "told above" if again and at < depth and neighbors(module, here) else ""
        )
        listed.add(here)
        pending.extend((at + 1, *step) for step in reversed(steps))
