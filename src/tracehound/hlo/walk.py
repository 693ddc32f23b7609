"""The way from an instruction to others: its operands, its users, what is inside, what calls it.

Owns the order in which a neighbourhood is told, as a tree. Knows no drawing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from msgspec import Struct

from tracehound.hlo.instruction import PARAMETER
from tracehound.hlo.module import Module

MOST: Final = 2_000
"""Nodes of one neighbourhood; what it has beyond is left out."""

FREE: Final = frozenset({"parameter", "constant", "tuple", "get-tuple-element", "bitcast"})
"""Opcodes that take no time of their own."""


Way = Callable[[Module, int], list[tuple[int, str]]]
"""Gives the neighbours of an instruction in one direction, and what they are to it."""


class Node(Struct, frozen=True):
    """One line of a neighbourhood: an instruction (`row`), and what it is to the one above it.

    `relation` is ``operand 0``, ``user``, ``inside``, ``caller`` or nothing at the root; `note` says what else: which
    operand a parameter stands for, that it is told above, that it is the result.
    """

    depth: int
    row: int
    relation: str
    note: str = ""


def neighbourhood(module: Module, row: int, depth: int) -> list[Node]:
    """The instruction, what is inside, and operands and users up to `depth` away; at most `MOST` nodes."""
    found = [Node(0, row, "")]
    for part in (inside(module, row), _towards(module, row, depth, _operands), _towards(module, row, depth, _users)):
        for node in part:
            if len(found) >= MOST:
                return found
            found.append(node)
    found.extend(Node(1, caller, "caller") for caller in module.callers.get(module.computation_of(row).number, ()))
    return found[:MOST]


def inside(module: Module, row: int) -> Iterator[Node]:
    """What runs in the computations that an instruction calls, each in its order: what a fusion fuses."""
    operands = module.operands[row]
    for number in module.calls[row]:
        called = module.computations[number]
        relation = "inside" if len(module.calls[row]) == 1 else f"inside {called.name}"
        for inner in module.scheduled(called):
            takes = ", ".join(f"%{module.names[operand]}" for operand in module.operands[inner])
            if module.opcodes[inner] == "parameter" and module.opcodes[row] == "fusion":
                at = module.instruction(inner).fields.number(PARAMETER)
                takes = f"= %{module.names[operands[at]]}" if 0 <= at < len(operands) else ""
            yield Node(1, inner, f"{relation}: result" if inner == called.root else relation, takes)


def makeup(module: Module, row: int) -> Counter[str]:
    """How many instructions of each opcode are inside, without parameters."""
    opcodes = (
        module.opcodes[inner] for number in module.calls[row] for inner in module.computations[number].rows
    )  # fmt: skip
    return Counter(opcode for opcode in opcodes if opcode != "parameter")


def _operands(module: Module, row: int) -> list[tuple[int, str]]:
    return [(operand, f"operand {at}") for at, operand in enumerate(module.operands[row])]


def _users(module: Module, row: int) -> list[tuple[int, str]]:
    return [(user, "user") for user in module.users.get(row, ())]


def _towards(module: Module, row: int, depth: int, way: Way) -> Iterator[Node]:
    """Those that lie in one direction, depth first; what was told already is not followed again."""
    told = {row}
    ahead = [(1, *step) for step in reversed(way(module, row))] if depth > 0 else []
    while ahead:
        at, here, relation = ahead.pop()
        again = here in told
        steps = way(module, here) if at < depth and not again else []
        yield Node(at, here, relation, "told above" if again and at < depth and way(module, here) else "")
        told.add(here)
        ahead.extend((at + 1, *step) for step in reversed(steps))
