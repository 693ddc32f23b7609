"""One instruction of a program and what surrounds it, as lines to walk through.

Owns which lines there are: what is true of the instruction, its words, its operands, users, insides and source lines,
with the branches that the user unfolded. Knows no widths and no colors.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

from tracehound.formats.hlo.hlo_shape import HloShape
from tracehound.hlo import hlo_programs, neighborhood
from tracehound.hlo.hlo_module import HloModule
from tracehound.hlo.hlo_programs import TraceProgram
from tracehound.hlo.instruction_sentences import describe_instruction
from tracehound.hlo.module_text import instruction_line_without_metadata
from tracehound.model.units import format_bytes, format_count

Kind = Literal["name", "fact", "words", "title", "op", "code", "frame", "blank"]
Way = Literal["operands", "users", "inside"]
Path = tuple[int, ...]
"""Where a branch is in the tree: rows from the middle outwards, after a number for the way."""

WAYS: tuple[Way, ...] = ("operands", "users", "inside")

MOST = 2_000
"""Lines of one branch; of more the number is said."""

ALIKE = ("program", "hlo", "backend", "source")
"""Facts that stand elsewhere on the page."""


class HloPageLine(Struct, frozen=True):
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


class HloPage(Struct, frozen=True):
    """Page about one HLO instruction: its program, the instruction in the middle, and the unfolded branches.

    `ran` says how often the trace shows it; `present` are the ordinals of the devices in the profile; `text` shows the
    whole computation as text instead.
    """

    program: TraceProgram
    module: HloModule
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

    def at(self, row: int) -> HloPage:
        """Another instruction of the program in the middle."""
        return HloPage(self.program, self.module, row, self.present)

    def toggle_branch(self, item: HloPageLine) -> HloPage:
        """The page with the branch behind a line unfolded, or folded again."""
        return replace(self, unfolded=self.unfolded ^ {item.path}) if item.open is not None else self

    def toggle_inner_instructions(self, item: HloPageLine) -> HloPage:
        """The page with the instructions inside a line's op shown under it, or hidden again."""
        return replace(self, opened=self.opened ^ {item.path}) if self.module.calls[item.row] else self

    def line(self, row: int) -> str:
        """The line of an instruction, as the text of its computation has it."""
        root = "ROOT " if row == self.module.computation_of(row).root else ""
        return f"{root}{instruction_line_without_metadata(self.module, self.module.instruction(row))}"

    def items(self) -> list[HloPageLine]:
        """The lines of the page."""
        return list(_computation_lines(self) if self.text else _page_lines(self))


def _page_lines(leaf: HloPage) -> Iterator[HloPageLine]:
    module = leaf.module
    instruction = module.instruction(leaf.row)
    yield HloPageLine(
        "name",
        f"%{leaf.name}",
        what=hlo_programs.opcode_with_kind(instruction),
        shape=instruction.shape.text,
        row=leaf.row,
    )
    for sentence in describe_instruction(module, instruction, leaf.present):
        yield HloPageLine("words", sentence)
    told = [
        (label, said)
        for label, said in hlo_programs.instruction_facts(module, leaf.program, leaf.row)
        if label not in ALIKE
    ]
    for label, said in [*told, *([("executions", leaf.ran)] if leaf.ran else [])]:
        yield HloPageLine("fact", said, label)
    yield from _direction_lines(leaf, "inside", "Inside")
    yield from _direction_lines(leaf, "operands", "Operands")
    yield from _direction_lines(leaf, "users", "Users")
    callers = module.callers.get(module.computation_of(leaf.row).number, ())
    yield from _titled_section(
        "Called by", [_instruction_line(leaf, caller, 0, (4, caller)) for caller in callers[:MOST]], len(callers)
    )
    frames = module.frames.stack(instruction)
    lines = [HloPageLine("frame", frame.text, frame.function) for frame in frames]
    yield from _titled_section("Source, innermost first", lines, len(lines))
    if config := instruction.backend_config:
        yield from _titled_section("Backend", [HloPageLine("words", config)], 1)


def _computation_lines(leaf: HloPage) -> Iterator[HloPageLine]:
    """The computation of the instruction, line by line."""
    module = leaf.module
    here = module.computation_of(leaf.row)
    yield HloPageLine("title", f"{'ENTRY ' if here.number == module.entry else ''}%{here.name}")
    for row in module.scheduled_rows(here):
        yield HloPageLine("code", row=row, path=(row,))


def _titled_section(title: str, items: Sequence[HloPageLine], total: int) -> Iterator[HloPageLine]:
    if not items:
        return
    yield HloPageLine("blank")
    numbered = f" {format_count(total)}" if len(items) > 1 else ""
    yield HloPageLine("title", f"{title}{numbered}" if len(items) == total else f"{title}: {len(items):,} of {total:,}")
    yield from items


def _direction_lines(leaf: HloPage, way: Way, title: str) -> Iterator[HloPageLine]:
    """All that lies in one direction, with what is unfolded there."""
    first = _neighbor_rows(leaf, way, leaf.row)
    items = [
        item for row, note in first[:MOST] for item in _branch_lines(leaf, way, row, note, 0, (WAYS.index(way), row))
    ]
    inner = f" ({makeup})" if way == "inside" and (makeup := _opcode_counts(leaf)) else ""
    titled = list(_titled_section(title, items, len(items)))
    if titled:
        shown = f"{title} {format_count(len(first))}{inner}" if len(first) > 1 else f"{title}{inner}"
        more = f": the first {MOST:,}" if len(first) > MOST else ""
        yield from (titled[0], replace(titled[1], words=shown + more), *titled[2:])


def _branch_lines(leaf: HloPage, way: Way, row: int, note: str, depth: int, path: Path) -> Iterator[HloPageLine]:
    """A line and what is unfolded beyond it."""
    beyond = _neighbor_rows(leaf, way, row)
    shown = path in leaf.unfolded
    yield replace(_instruction_line(leaf, row, depth, path), note=note, open=shown if beyond else None)
    if path in leaf.opened and (way != "inside" or not shown):
        for inner, said in _neighbor_rows(leaf, "inside", row)[:MOST]:
            yield from _branch_lines(leaf, "inside", inner, said, depth + 1, (*path, 2, inner))
    if shown:
        for further, said in beyond[:MOST]:
            yield from _branch_lines(leaf, way, further, said, depth + 1, (*path, further))


def _neighbor_rows(leaf: HloPage, way: Way, row: int) -> list[tuple[int, str]]:
    """The rows that lie in one direction of a row, and what is said of them."""
    module = leaf.module
    return _STEPS[way](module, row)


def _inner_rows(module: HloModule, row: int) -> list[tuple[int, str]]:
    nodes = neighborhood.inner_instructions(module, row)
    return [(node.row, f"{node.note}  result".strip() if "result" in node.relation else node.note) for node in nodes]


_STEPS: dict[Way, Callable[[HloModule, int], list[tuple[int, str]]]] = {
    "operands": lambda module, row: [(one, "") for one in dict.fromkeys(module.operands[row])],
    "users": lambda module, row: [(one, "") for one in module.users.get(row, ())],
    "inside": _inner_rows,
}


def _instruction_line(leaf: HloPage, row: int, depth: int, path: Path) -> HloPageLine:
    instruction = leaf.module.instruction(row)
    size = format_bytes(instruction.shape.bytes) if instruction.shape.bytes else ""
    shape = _shape_text(instruction.shape)
    return HloPageLine(
        "op", f"%{instruction.name}", "", row, depth, hlo_programs.opcode_with_kind(instruction), shape, size, "", path
    )


def _shape_text(shape: HloShape) -> str:
    """The text of a shape; of a long tuple its number of parts."""
    return f"({format_count(len(shape.tuple_shapes))} arrays)" if len(shape.tuple_shapes) > 4 else shape.text


def _opcode_counts(leaf: HloPage) -> str:
    """Counts of the opcodes inside an instruction, as text."""
    inside = neighborhood.count_inner_opcodes(leaf.module, leaf.row)
    return ", ".join(f"{number} {opcode}" for opcode, number in inside.most_common(6))


def find_line(items: Sequence[HloPageLine], row: int, kinds: Collection[Kind] = ("name", "code", "op")) -> int:
    """The first line that is about an instruction, else the first of all."""
    return next((at for at, item in enumerate(items) if item.row == row and item.kind in kinds), 0)
