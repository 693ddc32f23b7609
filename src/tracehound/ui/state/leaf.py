"""One instruction of a program and what surrounds it, as lines to walk through.

Owns which lines there are: what is true of the instruction, its words, its operands, users, insides and source lines,
with the branches that the user unfolded. Knows no widths and no colours.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

from tracehound.formats.hlo.shape import Shape
from tracehound.hlo import results, walk
from tracehound.hlo.module import Module
from tracehound.hlo.programs import Program
from tracehound.hlo.text import brief_line
from tracehound.hlo.words import sentences
from tracehound.units import bytes_, count

Kind = Literal["name", "fact", "words", "title", "op", "code", "frame", "blank"]
Way = Literal["operands", "users", "inside"]
Path = tuple[int, ...]
"""Where a branch is in the tree: rows from the middle outwards, after a number for the way."""

WAYS: tuple[Way, ...] = ("operands", "users", "inside")

MOST = 2_000
"""Lines of one branch; of more the number is said."""

ALIKE = ("program", "hlo", "backend", "source")
"""Facts that stand elsewhere on the page."""


class Item(Struct, frozen=True):
    """One line: of code, of which there may be very much, its text is left to `Leaf.line`.

    `words` is its text, or the name of an op, whose other parts are `what`, `shape`, `size` and `note`.
    `row` is the instruction to which it leads, -1 where it leads to none; `path` tells branches apart; `open` says
    whether what lies beyond it is shown, None where nothing does.
    """

    kind: Kind
    words: str = ""
    label: str = ""
    row: int = -1
    depth: int = 0
    what: str = ""
    shape: str = ""
    size: str = ""
    note: str = ""
    path: Path = ()
    open: bool | None = None


class Leaf(Struct, frozen=True):
    """What is shown: a program, the instruction in the middle, and the branches that are unfolded.

    `ran` says how often the trace shows it; `present` are the ordinals of the devices of the profile; `text` shows its
    whole computation as text instead.
    """

    program: Program
    module: Module
    row: int
    present: tuple[int, ...] = ()
    ran: str = ""
    unfolded: frozenset[Path] = field(default_factory=frozenset)
    opened: frozenset[Path] = field(default_factory=frozenset)
    text: bool = False

    @property
    def name(self) -> str:
        """Of the instruction in the middle."""
        return self.module.names[self.row]

    def at(self, row: int) -> Leaf:
        """Another instruction of the program in the middle."""
        return Leaf(self.program, self.module, row, self.present)

    def turned(self, item: Item) -> Leaf:
        """What lies beyond a line unfolded, or folded again."""
        return replace(self, unfolded=self.unfolded ^ {item.path}) if item.open is not None else self

    def turned_inside(self, item: Item) -> Leaf:
        """What is inside the op of a line shown under it, or not any more."""
        return replace(self, opened=self.opened ^ {item.path}) if self.module.calls[item.row] else self

    def line(self, row: int) -> str:
        """The line of an instruction, as the text of its computation has it."""
        root = "ROOT " if row == self.module.computation_of(row).root else ""
        return f"{root}{brief_line(self.module, self.module.instruction(row))}"

    def items(self) -> list[Item]:
        """The lines of the page."""
        return list(_text(self) if self.text else _page(self))


def _page(leaf: Leaf) -> Iterator[Item]:
    module = leaf.module
    instruction = module.instruction(leaf.row)
    yield Item("name", f"%{leaf.name}", what=results.what(instruction), shape=instruction.shape.text, row=leaf.row)
    for sentence in sentences(module, instruction, leaf.present):
        yield Item("words", sentence)
    told = [(label, said) for label, said in results.facts(module, leaf.program, leaf.row) if label not in ALIKE]
    for label, said in [*told, *([("executions", leaf.ran)] if leaf.ran else [])]:
        yield Item("fact", said, label)
    yield from _branches(leaf, "inside", "Inside")
    yield from _branches(leaf, "operands", "Operands")
    yield from _branches(leaf, "users", "Users")
    callers = module.callers.get(module.computation_of(leaf.row).number, ())
    yield from _titled("Called by", [_op(leaf, caller, 0, (4, caller)) for caller in callers[:MOST]], len(callers))
    frames = module.frames.stack(instruction)
    lines = [Item("frame", frame.text, frame.function) for frame in frames]
    yield from _titled("Source, innermost first", lines, len(lines))
    if config := instruction.backend_config:
        yield from _titled("Backend", [Item("words", config)], 1)


def _text(leaf: Leaf) -> Iterator[Item]:
    """The computation of the instruction, line by line."""
    module = leaf.module
    here = module.computation_of(leaf.row)
    yield Item("title", f"{'ENTRY ' if here.number == module.entry else ''}%{here.name}")
    for row in module.scheduled(here):
        yield Item("code", row=row, path=(row,))


def _titled(title: str, items: Sequence[Item], total: int) -> Iterator[Item]:
    if not items:
        return
    yield Item("blank")
    numbered = f" {count(total)}" if len(items) > 1 else ""
    yield Item("title", f"{title}{numbered}" if len(items) == total else f"{title}: {len(items):,} of {total:,}")
    yield from items


def _branches(leaf: Leaf, way: Way, title: str) -> Iterator[Item]:
    """All that lies in one direction, with what is unfolded there."""
    first = _beyond(leaf, way, leaf.row)
    items = [item for row, note in first[:MOST] for item in _branch(leaf, way, row, note, 0, (WAYS.index(way), row))]
    inner = f" ({makeup})" if way == "inside" and (makeup := _makeup(leaf)) else ""
    titled = list(_titled(title, items, len(items)))
    if titled:
        shown = f"{title} {count(len(first))}{inner}" if len(first) > 1 else f"{title}{inner}"
        more = f": the first {MOST:,}" if len(first) > MOST else ""
        yield from (titled[0], replace(titled[1], words=shown + more), *titled[2:])


def _branch(leaf: Leaf, way: Way, row: int, note: str, depth: int, path: Path) -> Iterator[Item]:
    """A line and what is unfolded beyond it."""
    beyond = _beyond(leaf, way, row)
    shown = path in leaf.unfolded
    yield replace(_op(leaf, row, depth, path), note=note, open=shown if beyond else None)
    if path in leaf.opened and (way != "inside" or not shown):
        for inner, said in _beyond(leaf, "inside", row)[:MOST]:
            yield from _branch(leaf, "inside", inner, said, depth + 1, (*path, 2, inner))
    if shown:
        for further, said in beyond[:MOST]:
            yield from _branch(leaf, way, further, said, depth + 1, (*path, further))


def _beyond(leaf: Leaf, way: Way, row: int) -> list[tuple[int, str]]:
    """The rows that lie in one direction of a row, and what is said of them."""
    module = leaf.module
    return _STEPS[way](module, row)


def _inside(module: Module, row: int) -> list[tuple[int, str]]:
    nodes = walk.inside(module, row)
    return [(node.row, f"{node.note}  result".strip() if "result" in node.relation else node.note) for node in nodes]


_STEPS: dict[Way, Callable[[Module, int], list[tuple[int, str]]]] = {
    "operands": lambda module, row: [(one, "") for one in dict.fromkeys(module.operands[row])],
    "users": lambda module, row: [(one, "") for one in module.users.get(row, ())],
    "inside": _inside,
}


def _op(leaf: Leaf, row: int, depth: int, path: Path) -> Item:
    instruction = leaf.module.instruction(row)
    size = bytes_(instruction.shape.bytes) if instruction.shape.bytes else ""
    shape = _shape(instruction.shape)
    return Item("op", f"%{instruction.name}", "", row, depth, results.what(instruction), shape, size, "", path)


def _shape(shape: Shape) -> str:
    """The text of a shape; of a long tuple its number of parts."""
    return f"({count(len(shape.parts))} arrays)" if len(shape.parts) > 4 else shape.text


def _makeup(leaf: Leaf) -> str:
    """How many instructions of each opcode are inside."""
    inside = walk.makeup(leaf.module, leaf.row)
    return ", ".join(f"{number} {opcode}" for opcode, number in inside.most_common(6))


def place_of(items: Sequence[Item], row: int, kinds: Collection[Kind] = ("name", "code", "op")) -> int:
    """The first line that is about an instruction, else the first of all."""
    return next((at for at, item in enumerate(items) if item.row == row and item.kind in kinds), 0)
