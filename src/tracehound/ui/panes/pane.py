"""What every pane under the timeline answers, and the pane that shows one result.

Owns the caption, the table and the filter of a result. Knows no trace: the screen says what is shown, or why not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from rich.segment import Segment
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input

from tracehound.analysis.result import Result
from tracehound.draw.glyphs import UNICODE, Glyphs
from tracehound.ui import words
from tracehound.ui.widgets.plain_box import Column
from tracehound.ui.widgets.result_table import ResultTable


class Caption(Widget):
    """One line above a table: what it is, of which window, how many rows, and what is to be known of it."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {"caption--title", "caption--scope"}
    DEFAULT_CSS = """
    Caption {
        height: 1; color: $text-muted;
        & > .caption--title { color: $text; text-style: bold; }
        & > .caption--scope { color: $accent; text-style: bold; }
    }
    """

    parts: reactive[tuple[str, ...]] = reactive(())
    """Title, scope, and the rest."""
    windowed: reactive[bool] = reactive(default=False)
    """Whether the scope is a selected window."""

    def __init__(self, glyphs: Glyphs) -> None:
        super().__init__()
        self._glyphs = glyphs

    def render_line(self, y: int) -> Strip:
        """The parts that fit, the last one cut."""
        del y
        glyphs = self._glyphs
        title = self.get_component_rich_style("caption--title", partial=False)
        scope = self.get_component_rich_style("caption--scope", partial=False) if self.windowed else self.rich_style
        segments = list[Segment]()
        for index, part in enumerate(self.parts):
            lead = f" {glyphs.dot} " if index else " "
            style = title if index == 0 else scope if index == 1 else self.rich_style
            segments += [Segment(lead, self.rich_style), Segment(glyphs.words(part), style)]
        strip = Strip(segments)
        width = self.size.width
        if strip.cell_length > width > 1:
            return Strip([*strip.crop(0, width - 1), Segment(glyphs.ellipsis, self.rich_style)])
        return strip.adjust_cell_length(width, self.rich_style)


class FilterBox(Input):
    """Where the filter of a table is typed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave(True)", "clear", show=False, tooltip="Show all rows again", id="filter.clear"),
        Binding("enter,down", "leave(False)", "rows", show=False, tooltip="Go to the rows", id="filter.done"),
    ]
    DEFAULT_CSS = """
    FilterBox, FilterBox:focus { border: none; height: 1; padding: 0 1; background: $boost; display: none; }
    FilterBox.-open { display: block; }
    """

    def __init__(self, left: Callable[[], None]) -> None:
        super().__init__(placeholder="filter: text in any column", select_on_focus=False)
        self.cursor_blink = False
        self._left = left

    def action_leave(self, forget: bool) -> None:  # noqa: FBT001 - an action's argument is a literal in the key table
        """Go back to the rows, with or without the filter."""
        if forget:
            self.value = ""
        self.set_class(bool(self.value), "-open")
        self._left()


class TablePane(Column):
    """One result: a caption, the table, and its filter."""

    DEFAULT_CSS = """
    TablePane { height: 1fr; width: 1fr; }
    TablePane ResultTable { height: 1fr; }
    """

    def __init__(self, name: str, glyphs: Glyphs = UNICODE, aside: tuple[str, ...] = ()) -> None:
        super().__init__(id=f"pane-{name}")
        self.caption = Caption(glyphs)
        self.table = ResultTable(glyphs, aside)
        self.filter = FilterBox(self.focus_pane)
        self._window: tuple[int, int] | None = None
        self._so_far = ""

    def compose(self) -> ComposeResult:
        """Caption and rows; the filter joins when it is asked for."""
        yield self.caption
        yield self.table

    def show(self, result: Result, window: tuple[int, int] | None, why_empty: str, so_far: str = "") -> None:
        """Show a result of `window`; `why_empty` stands in place of rows, `so_far` says how much it is about."""
        self._window, self._so_far = window, so_far
        self.table.empty = why_empty if result.table.is_empty() else "no row has this text"
        self.table.result = result
        self._describe()

    def fail(self, message: str) -> None:
        """Say in one line why there is no result."""
        self.caption.parts = (message,)
        self.table.empty = message
        self.table.result = None

    def wait(self, message: str) -> None:
        """Say that a result is on its way; what is shown stays until then."""
        if self.table.result is None:
            self.caption.parts = (message,)

    def forget(self) -> None:
        """Show no result, since its rows mean something else now."""
        self.table.result = None

    def focus_pane(self) -> None:
        """Give the keys to the table."""
        self.table.focus()

    def _describe(self) -> None:
        result = self.table.result
        if result is None:
            return
        self.caption.windowed = self._window is not None
        title, scope, *rest = words.caption(result, self._window, self.table.shown, self.table.needle)
        self.caption.parts = (title, scope, *([self._so_far] if self._so_far else []), *rest)

    @on(ResultTable.FilterAsked)
    async def _open_filter(self) -> None:
        if not self.filter.is_attached:
            await self.mount(self.filter)
        self.filter.add_class("-open")
        self.filter.focus()

    @on(Input.Changed)
    def _filter(self, event: Input.Changed) -> None:
        event.stop()
        self.table.needle = event.value
        self._describe()
