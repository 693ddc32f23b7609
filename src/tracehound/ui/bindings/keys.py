"""Every key of the explorer and of the comparison, in one table.

Widgets take their bindings from here; the footer, the help screen and the page of keys are made from the same rows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace
from textual.binding import Binding, BindingType

Group = Literal[
    "everywhere", "overview", "timeline", "lanes", "table", "arrivals", "map", "flame", "details", "source", "hlo",
    "comparison", "prompt",
]  # fmt: skip
"""Where a key works: on any pane, or while that widget has the focus."""

GROUP_TITLES: dict[Group, str] = {
    "everywhere": "Everywhere",
    "overview": "Overview",
    "timeline": "Timeline",
    "lanes": "Lanes",
    "table": "Tables",
    "arrivals": "Arrivals",
    "map": "Rank map",
    "flame": "Flame graph",
    "details": "Details",
    "source": "Source",
    "hlo": "HLO",
    "prompt": "Prompts",
    "comparison": "Comparison",
}


class Key(Struct, frozen=True):
    """One row of the table.

    `keys` are the keys that do it, as Textual names them; `shown` is how they are written for people. `action` is the
    method without ``action_``; where it `asks`, what is typed next is text. `label` is one word for the footer (""
    keeps it out of the footer), `meaning` one line for the help screen.
    """

    id: str
    keys: tuple[str, ...]
    shown: str
    action: str
    meaning: str
    group: Group
    label: str = ""
    priority: bool = False
    asks: bool = False

    def display_text(self, alphabet: str) -> str:
        """The keys as text in an alphabet: without arrows in ASCII."""
        if alphabet != "ascii":
            return self.shown
        return "".join(_ASCII_ARROWS.get(char, char) for char in self.shown)


_ASCII_ARROWS = {"←": "Left", "→": "Right", "↑": "Up", "↓": "Down", "⇧": "Shift+"}


KEYS: tuple[Key, ...] = (
    Key("help", ("?", "f1"), "? F1", "help", "Show the keys", "everywhere", "help"),
    Key("search", ("/",), "/", "search",
        "Search event names in the whole trace", "everywhere", "search", asks=True),
    Key("walk.next", ("n",), "n", "travel('walk', 1)", "Next match, or next event of the row", "everywhere"),
    Key("walk.previous", ("N",), "N", "travel('walk', -1)",
        "Previous match, or previous event of the row", "everywhere"),
    Key("back", ("u", "backspace"), "u Bksp", "travel('back', -1)", "Go back", "everywhere"),
    Key("forward", ("U",), "U", "travel('back', 1)", "Go forward", "everywhere"),
    Key("mark", ("m",), "m", "travel('mark')", "Set a bookmark with a letter", "everywhere", asks=True),
    Key("to_mark", ("'",), "'", "travel('to_mark')", "Go to a bookmark", "everywhere", asks=True),
    Key("path", ("P",), "P", "travel('path')",
        "Mark the critical path in the timeline; n and N walk it", "everywhere"),
    Key("copy_command", ("Y",), "Y", "copy_command", "Copy the shell command that prints this", "everywhere"),
    Key("clear", ("escape",), "Esc", "clear",
        "Close what was opened last (details, full screen, window, matches, path), or stop reading", "everywhere"),
    Key("palette", ("ctrl+p",), "Ctrl+P", "app.command_palette", "Find a command by name", "everywhere"),
    Key("focus.next", ("tab",), "Tab", "app.focus_next", "Next pane on the screen", "everywhere"),
    Key("focus.previous", ("shift+tab",), "Shift+Tab", "app.focus_previous",
        "Previous pane on the screen", "everywhere"),
    Key("menu", ("M", "f2"), "M F2", "menu",
        "Menu of all analyses, each with a key", "everywhere", "menu"),
    Key("pane.timeline", ("T",), "T", "show('timeline')", "Timeline", "everywhere"),
    Key("pane.overview", ("1",), "1", "show('overview')",
        "Overview: findings, breakdown, steps, top ops and health on one page", "everywhere"),
    Key("pane.ops", ("2",), "2", "show('ops')", "Ops: kernels, or HLO ops by self time", "everywhere"),
    Key("pane.gaps", ("3",), "3", "show('gaps')", "Gaps: intervals in which the device idles", "everywhere"),
    Key("pane.steps", ("4",), "4", "show('steps')", "Steps", "everywhere"),
    Key("pane.annotations", ("5",), "5", "show('annotations')", "Annotations of the program", "everywhere"),
    Key("pane.collectives", ("6",), "6", "show('collectives')", "Collectives", "everywhere"),
    Key("pane.breakdown", ("7",), "7", "show('breakdown')", "Breakdown of device time", "everywhere"),
    Key("pane.health", ("8",), "8", "show('health')", "Health: repaired, dropped and inferred data", "everywhere"),
    Key("pane.details", ("9",), "9", "show('details')",
        "Details of the selected event; again, or Esc, hides them", "everywhere"),
    Key("pane.host", ("t",), "t", "show('host')", "Threads: host activity in the window", "everywhere"),
    Key("pane.slices", ("S",), "S", "show('slices')",
        "Slices: events of the lane under the cursor, in the window", "everywhere"),
    Key("pane.query", (":",), ":", "show('query')", "Query the trace in SQL", "everywhere", asks=True),
    Key("pane.zoom", ("z",), "z", "zoom_pane", "Full screen for this pane, and back", "everywhere", "full"),
    Key("settings", ("B",), "B", "settings",
        "Settings of the pane: grouping, peaks, thresholds", "everywhere"),
    Key("notes", ("I",), "I", "show_full_text",
        "Notes in full, and the meanings of columns", "everywhere"),
    Key("source.read", ("O",), "O", "read_source", "Show the source line of the selected event", "everywhere"),
    Key("hlo", ("%",), "%", "show_hlo",
        "HLO of the op: explanation, contents, operands and users", "everywhere"),
    Key("repaint", ("ctrl+l",), "Ctrl+L", "app.repaint", "Redraw the screen", "everywhere"),
    Key("suspend", ("ctrl+z",), "Ctrl+Z", "app.suspend_process",
        "Suspend to the shell; fg resumes", "everywhere", priority=True),
    Key("timeline.shorter", ("{",), "{", "resize_timeline(-2)", "Make the timeline shorter", "everywhere"),
    Key("timeline.taller", ("}",), "}", "resize_timeline(2)", "Make the timeline taller", "everywhere"),
    Key("quit", ("q", "ctrl+q"), "q", "app.quit", "Quit at once", "everywhere", "quit"),
    Key("overview.choose", ("enter", "space"), "Enter", "choose", "Open the panel under the cursor",
        "overview", "show"),
    Key("overview.left", ("left", "h", "a"), "← h a", "move(-1, 0)", "Panel on the left", "overview"),
    Key("overview.right", ("right", "l", "d"), "→ l d", "move(1, 0)", "Panel on the right", "overview"),
    Key("overview.down", ("down", "j", "s"), "↓ j s", "move(0, 1)", "Panel below", "overview"),
    Key("overview.up", ("up", "k", "w"), "↑ k w", "move(0, -1)", "Panel above", "overview"),
    Key("timeline.left", ("left", "h", "a"), "← h a", "pan(-1, 4)", "Pan to the left", "timeline", "pan"),
    Key("timeline.right", ("right", "l", "d"), "→ l d", "pan(1, 4)", "Pan to the right", "timeline"),
    Key("timeline.page_left", ("shift+left", "H", "A"), "⇧← H A", "pan(-1, 1)", "One screen left", "timeline"),
    Key("timeline.page_right", ("shift+right", "L", "D"), "⇧→ L D", "pan(1, 1)", "One screen right", "timeline"),
    Key("timeline.zoom_in", ("w", "+", "="), "w +", "zoom(1, 2)", "Zoom in at the focus", "timeline", "zoom"),
    Key("timeline.zoom_out", ("s", "-"), "s -", "zoom(2, 1)", "Zoom out", "timeline"),
    Key("timeline.fit", ("0",), "0", "fit", "Fit the whole run", "timeline", "fit"),
    Key("timeline.frame", ("f",), "f", "frame", "Zoom to the selected window, or to the selected event", "timeline"),
    Key("timeline.down", ("down", "j"), "↓ j", "vertical(1)", "Event inside, or else next lane", "timeline"),
    Key("timeline.up", ("up", "k"), "↑ k", "vertical(-1)", "Event around, or else previous lane", "timeline"),
    Key("timeline.lane_down", ("shift+down", "J"), "⇧↓ J", "lane(1)", "Next lane", "timeline"),
    Key("timeline.lane_up", ("shift+up", "K"), "⇧↑ K", "lane(-1)", "Previous lane", "timeline"),
    Key("timeline.page_down", ("pagedown",), "PgDn", "page(1)", "Page of lanes down", "timeline"),
    Key("timeline.page_up", ("pageup",), "PgUp", "page(-1)", "Page of lanes up", "timeline"),
    Key("timeline.first", ("home",), "Home", "last_lane(-1)", "First lane", "timeline"),
    Key("timeline.last", ("end",), "End", "last_lane(1)", "Last lane", "timeline"),
    Key("timeline.next", ("full_stop",), ".", "event(1)",
        "Next event on the lane, or next change of a counter", "timeline", "next event"),
    Key("timeline.previous", ("comma",), ",", "event(-1)",
        "Previous event on the lane, or previous change of a counter", "timeline"),
    Key("timeline.choose", ("enter",), "Enter", "choose",
        "Select the event at the focus; again: its details", "timeline"),
    Key("timeline.next_gap", ("]",), "]", "gap(1)", "Select the next gap of the rank", "timeline", "next gap"),
    Key("timeline.previous_gap", ("[",), "[", "gap(-1)", "Select the previous gap of the rank", "timeline"),
    Key("timeline.cause", ("o",), "o", "screen.travel('link', -1)",
        "Out: to the launch, the operator around it, the Python line", "timeline", "origin"),
    Key("timeline.effects", ("i",), "i", "screen.travel('link', 1)",
        "In: to the launched work; n and N go to the rest", "timeline"),
    Key("timeline.next_step", (")",), ")", "screen.travel('step', 1)", "Select the next step", "timeline"),
    Key("timeline.previous_step", ("(",), "(", "screen.travel('step', -1)", "Select the previous step", "timeline"),
    Key("timeline.place", ("g",), "g", "screen.travel('place')",
        "Go to a time or a step", "timeline", "go to", asks=True),
    Key("timeline.mark", ("v",), "v", "mark", "Begin or end a window here; move to extend it", "timeline", "range"),
    Key("timeline.clear", ("escape",), "Esc", "clear", "Clear the selection", "timeline"),
    Key("lanes.fold", ("space",), "Space", "fold", "Fold or unfold the group", "lanes"),
    Key("lanes.expand", ("e",), "e", "expand", "Show all rows of a deep lane, or a large counter graph", "lanes"),
    Key("lanes.hide", ("x",), "x", "hide", "Hide the lane", "lanes"),
    Key("lanes.all", ("X",), "X", "show_all", "Show all lanes and all ranks again", "lanes"),
    Key("lanes.pin", ("p",), "p", "pin", "Pin the lane to the top, or unpin it", "lanes"),
    Key("lanes.up", ("<",), "<", "move_lane(-1)", "Move the lane up in its group", "lanes"),
    Key("lanes.down", (">",), ">", "move_lane(1)", "Move the lane down", "lanes"),
    Key("lanes.filter", ("\\",), "\\", "filter_lanes", "Filter lanes by name", "lanes", asks=True),
    Key("lanes.ranks", ("R",), "R", "choose_ranks",
        "Choose ranks: 0,2-5", "lanes", asks=True),
    Key("lanes.color", ("c",), "c", "color", "Color by kind, by name, by HLO category or by step", "lanes"),
    Key("lanes.group", ("b",), "b", "regroup", "Group lanes by rank, or by stream over all ranks", "lanes"),
    Key("table.choose", ("enter",), "Enter", "choose", "Go to the row's event or window", "table", "go"),
    Key("table.filter", ("f",), "f", "ask('filter')",
        "Filter the rows: gemm, self > 1ms, name ~ x", "table", "filter", asks=True),
    Key("table.unfilter", ("escape",), "Esc", "ask('unfilter')", "End the filter", "table"),
    Key("table.by", ("b",), "b", "screen.regroup", "Change grouping", "table", "by"),
    Key("table.chart", ("v",), "v", "ask('chart')", "Chart or table", "table", "chart"),
    Key("table.window", ("space", "w"), "Space w", "pick_window", "Select the row's window", "table", "window"),
    Key("table.sort_next", (">",), ">", "sort_column(1)", "Sort by the next column", "table", "sort"),
    Key("table.sort_previous", ("<",), "<", "sort_column(-1)", "Sort by the previous column", "table"),
    Key("table.sort_here", ("o",), "o", "sort_here", "Sort by the column under the cursor, or reverse", "table"),
    Key("table.reverse", ("r",), "r", "reverse", "Reverse the order", "table", "reverse"),
    Key("table.down", ("down", "j", "s"), "↓ j s", "move(1)", "Next row", "table"),
    Key("table.up", ("up", "k"), "↑ k", "move(-1)", "Previous row", "table"),
    Key("table.page_down", ("pagedown", "ctrl+d"), "PgDn ^D", "page(1)", "Page down", "table"),
    Key("table.page_up", ("pageup", "ctrl+u"), "PgUp ^U", "page(-1)", "Page up", "table"),
    Key("table.first", ("home", "g"), "Home g", "first", "First row", "table"),
    Key("table.last", ("end", "G"), "End G", "last", "Last row", "table"),
    Key("table.left", ("left", "h", "a"), "← h a", "column(-1)", "Previous column", "table"),
    Key("table.right", ("right", "l", "d"), "→ l d", "column(1)", "Next column", "table"),
    Key("table.fold", ("e",), "e", "fold('turn')", "Fold or unfold the row of a tree", "table"),
    Key("table.outward", ("shift+left", "H", "A"), "⇧← H A", "fold('outward')",
        "Fold the row of a tree, or go to the one around it", "table"),
    Key("table.inward", ("shift+right", "L", "D"), "⇧→ L D", "fold('inward')",
        "Unfold the row of a tree, or go to the first inside", "table"),
    Key("table.level_less", ("(",), "(", "fold('less')", "Show one level fewer of a tree", "table"),
    Key("table.level_more", (")",), ")", "fold('more')", "Show one level more of a tree", "table"),
    Key("table.hide", ("-",), "-", "ask('hide')", "Hide the column under the cursor", "table"),
    Key("table.columns", ("+", "="), "+ =", "ask('columns')", "Choose the columns", "table", "columns"),
    Key("table.copy", ("c",), "c", "ask('copy cell')", "Copy the cell under the cursor, uncut", "table", "copy"),
    Key("table.copy_row", ("C",), "C", "ask('copy row')", "Copy the row", "table"),
    Key("table.save", ("x",), "x", "ask('save')",
        "Save the table: csv, json, markdown or text", "table", "save", asks=True),
    Key("arrivals.next", ("full_stop", "right", "l", "d"), ". → l d", "collective(1)",
        "Next collective", "arrivals", "next"),
    Key("arrivals.previous", ("comma", "left", "h", "a"), ", ← h a", "collective(-1)",
        "Previous collective", "arrivals", "previous"),
    Key("arrivals.latest", ("exclamation_mark",), "!", "latest",
        "Collective with the latest arrival", "arrivals", "latest"),
    Key("arrivals.choose", ("enter",), "Enter", "choose", "Go to the call of the rank", "arrivals", "go"),
    Key("arrivals.down", ("down", "j", "s"), "↓ j s", "move(1)", "Next rank to arrive", "arrivals"),
    Key("arrivals.up", ("up", "k", "w"), "↑ k w", "move(-1)", "Previous rank to arrive", "arrivals"),
    Key("arrivals.page_down", ("pagedown", "ctrl+d"), "PgDn ^D", "page(1)", "Page down", "arrivals"),
    Key("arrivals.page_up", ("pageup", "ctrl+u"), "PgUp ^U", "page(-1)", "Page up", "arrivals"),
    Key("arrivals.first", ("home", "g"), "Home g", "end(-1)", "First rank to arrive", "arrivals"),
    Key("arrivals.last", ("end", "G"), "End G", "end(1)", "Last rank to arrive", "arrivals"),
    Key("map.left", ("left", "h", "a"), "← h a", "move(0, -1)", "Step on the left", "map"),
    Key("map.right", ("right", "l", "d"), "→ l d", "move(0, 1)", "Step on the right", "map"),
    Key("map.down", ("down", "j", "s"), "↓ j s", "move(1, 0)", "Next rank", "map"),
    Key("map.up", ("up", "k", "w"), "↑ k w", "move(-1, 0)", "Previous rank", "map"),
    Key("map.page_down", ("pagedown", "ctrl+d"), "PgDn ^D", "page(1)", "Page down", "map"),
    Key("map.page_up", ("pageup", "ctrl+u"), "PgUp ^U", "page(-1)", "Page up", "map"),
    Key("map.first", ("home", "g"), "Home g", "end(-1)", "First rank", "map"),
    Key("map.last", ("end", "G"), "End G", "end(1)", "Last rank", "map"),
    Key("map.zoom_in", ("+", "="), "+", "zoom(1)", "Zoom in to the worst rank and step of the cell", "map", "zoom"),
    Key("map.zoom_out", ("-",), "-", "zoom(-1)", "Zoom out", "map"),
    Key("map.fit", ("0",), "0", "fit", "Show all ranks and steps", "map", "all"),
    Key("map.value", ("v",), "v", "value",
        "Next value: step time, busy share, lateness, mean kernel (B chooses which)", "map", "value"),
    Key("map.order", ("b",), "b", "order",
        "Next order: by rank, by host, by process group, worst rank first", "map", "by"),
    Key("map.worst", ("exclamation_mark",), "!", "worst",
        "Rank and step that is worst against the median of the step", "map", "worst"),
    Key("map.choose", ("enter",), "Enter", "choose", "Go to the step of the rank", "map", "go"),
    Key("flame.down", ("down", "j", "s"), "↓ j s", "vertical(1)", "Widest frame called by this one", "flame"),
    Key("flame.up", ("up", "k", "w"), "↑ k w", "vertical(-1)", "Caller", "flame"),
    Key("flame.left", ("left", "h", "a"), "← h a", "aside(-1)", "Frame on the left", "flame"),
    Key("flame.right", ("right", "l", "d"), "→ l d", "aside(1)", "Frame on the right", "flame"),
    Key("flame.first", ("home",), "Home", "first", "Outermost frame", "flame"),
    Key("flame.zoom", ("enter",), "Enter", "zoom", "Zoom into the frame", "flame", "zoom"),
    Key("flame.out", ("backspace", "escape"), "Bksp Esc", "out", "Zoom out to the caller", "flame", "out"),
    Key("flame.whole", ("0",), "0", "whole", "Show all frames", "flame"),
    Key("flame.weigh", ("b",), "b", "weigh", "Weigh by host time, or by launched device time", "flame", "by"),
    Key("flame.every", ("e",), "e", "every",
        "Show all frames, or merge frames that only call another", "flame", "every"),
    Key("flame.source", ("O",), "O", "source",
        "Show the source line of the frame, or of its caller", "flame", "source"),
    Key("flame.edit", ("E",), "E", "edit", "Open it in $VISUAL or $EDITOR", "flame"),
    Key("flame.go", ("g",), "g", "ask('go')", "Go to the longest call in the timeline", "flame", "go"),
    Key("flame.window", ("space",), "Space", "ask('window')", "Select the window of the longest call", "flame"),
    Key("flame.find", ("f",), "f", "ask('find')",
        "Find frames by their names: gemm, ~regex", "flame", "find", asks=True),
    Key("flame.find_next", ("n",), "n", "find_next(1)", "Next frame found", "flame"),
    Key("flame.find_previous", ("N",), "N", "find_next(-1)", "Previous frame found", "flame"),
    Key("flame.copy", ("c",), "c", "copy", "Copy the name of the frame", "flame"),
    Key("flame.table", ("v",), "v", "ask('table')", "Show as a table", "flame", "table"),
    Key("details.down", ("down", "j", "s"), "↓ j s", "move(1)", "Line down", "details"),
    Key("details.up", ("up", "k", "w"), "↑ k w", "move(-1)", "Line up", "details"),
    Key("details.page_down", ("pagedown", "space"), "PgDn Space", "page(1)", "Page down", "details"),
    Key("details.page_up", ("pageup",), "PgUp", "page(-1)", "Page up", "details"),
    Key("details.first", ("home", "g"), "Home g", "first", "To the top", "details"),
    Key("details.last", ("end", "G"), "End G", "last", "To the end", "details"),
    Key("details.open", ("enter",), "Enter", "open",
        "Show the source line of this frame, or of the event", "details", "source"),
    Key("details.edit", ("e",), "e", "edit", "Open the source line in $VISUAL or $EDITOR", "details", "edit"),
    Key("details.find", ("f",), "f", "find", "Find text in the details", "details", "find", asks=True),
    Key("details.find_next", ("n",), "n", "find_next(1)", "Next match", "details"),
    Key("details.find_previous", ("N",), "N", "find_next(-1)", "Previous match", "details"),
    Key("details.unfind", ("escape",), "Esc", "unfind", "Stop finding", "details"),
    Key("details.next", ("full_stop",), ".", "screen.along('event', 1)", "Next event on the lane", "details"),
    Key("details.previous", ("comma",), ",", "screen.along('event', -1)", "Previous event on the lane", "details"),
    Key("details.next_gap", ("]",), "]", "screen.along('gap', 1)", "Select the next gap of the rank", "details"),
    Key("details.previous_gap", ("[",), "[", "screen.along('gap', -1)",
        "Select the previous gap of the rank", "details"),
    Key("details.cause", ("o",), "o", "screen.travel('link', -1)",
        "Out: to the launch, the operator around it, the Python line", "details", "origin"),
    Key("details.effects", ("i",), "i", "screen.travel('link', 1)", "In: to the launched work", "details"),
    Key("details.copy_value", ("y",), "y", "copy_value", "Copy the value under the cursor", "details", "copy"),
    Key("details.copy_line", ("Y",), "Y", "copy_line", "Copy label and value", "details"),
    Key("details.copy_all", ("c",), "c", "copy_all", "Copy all details of the event", "details"),
    Key("source.down", ("down", "j", "s"), "↓ j s", "scroll_by(1)", "Line down", "source", "scroll"),
    Key("source.up", ("up", "k", "w"), "↑ k w", "scroll_by(-1)", "Line up", "source"),
    Key("source.page_down", ("pagedown", "space"), "PgDn Space", "scroll_pages(1)", "Page down", "source"),
    Key("source.page_up", ("pageup",), "PgUp", "scroll_pages(-1)", "Page up", "source"),
    Key("source.first", ("home", "g"), "Home g", "scroll_home", "To the top", "source"),
    Key("source.last", ("end", "G"), "End G", "scroll_end", "To the end", "source"),
    Key("source.left", ("left", "h", "a"), "← h a", "scroll_aside(-8)", "Scroll to the left", "source"),
    Key("source.right", ("right", "l", "d"), "→ l d", "scroll_aside(8)", "Scroll to the right", "source"),
    Key("source.back", (".",), ".", "show_line", "Back to the line of the event", "source"),
    Key("source.edit", ("e",), "e", "edit", "Open it in $VISUAL or $EDITOR", "source", "edit"),
    Key("source.copy", ("y",), "y", "copy_place", "Copy file and line", "source", "copy"),
    Key("source.close", ("escape", "q", "enter"), "Esc q", "dismiss", "Back to the explorer", "source", "back"),
    Key("hlo.down", ("down", "j", "s"), "↓ j s", "move(1)", "Line down", "hlo"),
    Key("hlo.up", ("up", "k", "w"), "↑ k w", "move(-1)", "Line up", "hlo"),
    Key("hlo.page_down", ("pagedown", "ctrl+d"), "PgDn ^D", "page(1)", "Page down", "hlo"),
    Key("hlo.page_up", ("pageup", "ctrl+u"), "PgUp ^U", "page(-1)", "Page up", "hlo"),
    Key("hlo.first", ("home", "g"), "Home g", "first", "To the top", "hlo"),
    Key("hlo.last", ("end", "G"), "End G", "last", "To the end", "hlo"),
    Key("hlo.open", ("enter",), "Enter", "open",
        "Go to the instruction of the line, or show its source line", "hlo", "go"),
    Key("hlo.unfold", ("right", "l", "d"), "→ l d", "unfold",
        "Unfold: the operands of an operand, the users of a user", "hlo", "unfold"),
    Key("hlo.fold", ("left", "h", "a"), "← h a", "fold", "Fold, or go to the parent line", "hlo"),
    Key("hlo.inside", ("space", "f"), "Space f", "inside", "Show the contents of the fusion", "hlo", "inside"),
    Key("hlo.back", ("u", "backspace"), "u Bksp", "back", "Previous instruction", "hlo", "back"),
    Key("hlo.next", ("n",), "n", "instance(1)", "Go to its next execution in the timeline", "hlo", "next"),
    Key("hlo.previous", ("N",), "N", "instance(-1)", "Go to its previous execution", "hlo"),
    Key("hlo.text", ("t",), "t", "text", "Computation as text, or the page", "hlo", "text"),
    Key("hlo.source", ("O",), "O", "source", "Show the source line of the instruction", "hlo", "source"),
    Key("hlo.copy", ("y", "c"), "y c", "copy", "Copy the whole line", "hlo", "copy"),
    Key("hlo.close", ("escape", "q"), "Esc q", "screen.dismiss", "Back to the explorer", "hlo", "close"),
    Key("prompt.enter", ("enter",), "Enter", "submit",
        "Confirm: go to the rows, the match or the lanes; run the query", "prompt", "done"),
    Key("prompt.leave", ("escape",), "Esc", "leave", "Cancel: clear the filter, stop the query", "prompt", "leave"),
    Key("prompt.up", ("up",), "↑", "move(-1)", "Previous query", "prompt"),
    Key("prompt.down", ("down",), "↓", "move(1)", "Next query; from a filter, go to the rows", "prompt"),
    Key("comparison.align", ("m",), "m", "align",
        "Align by common start, by step, or by matched sequence", "comparison", "align"),
    Key("comparison.swap", ("S",), "S", "swap", "Swap baseline and candidate", "comparison", "swap"),
    Key("comparison.step_next", (")",), ")", "travel('step', 1)", "Next pair of steps", "comparison"),
    Key("comparison.step_previous", ("(",), "(", "travel('step', -1)", "Previous pair of steps", "comparison"),
    Key("comparison.partner_next", ("T",), "T", "partner(1)",
        "Pair the baseline's step with the candidate's next one", "comparison", "pair"),
    Key("comparison.partner_previous", ("t",), "t", "partner(-1)",
        "Pair it with the candidate's previous step", "comparison"),
    Key("comparison.next", ("n",), "n", "difference(1)",
        "Next op that differs, among matched ops", "comparison", "next"),
    Key("comparison.previous", ("N",), "N", "difference(-1)",
        "Previous op that differs, among matched ops", "comparison"),
    Key("comparison.baseline", ("1",), "1", "show('baseline')", "Timeline of the baseline", "comparison"),
    Key("comparison.candidate", ("2",), "2", "show('candidate')", "Timeline of the candidate", "comparison"),
    Key("comparison.ops", ("3",), "3", "show('ops')", "Ops by their effect on the step; Enter goes to the longest",
        "comparison"),
    Key("comparison.categories", ("4",), "4", "show('categories')", "Categories of ops", "comparison"),
    Key("comparison.change", ("5",), "5", "show('change')", "Where the change comes from: a waterfall", "comparison"),
    Key("comparison.parts", ("6",), "6", "show('parts')", "The step and its parts", "comparison"),
    Key("comparison.causes", ("7",), "7", "show('causes')", "Launches, gaps by cause, compiling", "comparison"),
    Key("comparison.marks", ("8",), "8", "show('marks')", "Annotations and modules", "comparison"),
    Key("comparison.counters", ("9",), "9", "show('counters')", "Memory and other counters", "comparison"),
    Key("comparison.filter", ("/",), "/", "filter", "Filter the rows of the table",
        "comparison", asks=True),
    Key("comparison.zoom", ("z",), "z", "zoom_pane", "Full screen for the timelines, and back", "comparison"),
    Key("comparison.back", ("escape",), "Esc", "back", "Align by step again, or leave full screen", "comparison"),
)  # fmt: skip


PRESSED_NAMES = "Enter go  Esc leave"
"""What is said on a line that stands in the place of the footer: its input has these two keys, whatever the others."""


def textual_bindings(group: Group) -> list[BindingType]:
    """Textual bindings of a group's keys."""
    return [
        Binding(
            ",".join(key.keys), key.action, key.label or key.meaning,
            show=bool(key.label), key_display=key.shown, tooltip=key.meaning, id=key.id, priority=key.priority,
        )
        for key in KEYS
        if key.group == group
    ]  # fmt: skip


def key_text(table: Sequence[Key], id_: str) -> str:
    """The key to press for an action, from a table of keys; empty if no key does it."""
    return next((key.shown.partition(" ")[0] for key in table if key.id == id_), "")


def footer_keys(table: Sequence[Key], group: Group) -> list[Key]:
    """The keys that the footer names while a widget of this group has the focus.

    A page of its own has all keys, and in a prompt those of the panes are text.
    """
    groups = (group,) if group in ("source", "hlo", "prompt") else (group, "everywhere")
    return [key for key in table if key.keys and key.label and key.group in groups]


NEED_EVENT = ("details.open", "details.edit", "details.cause", "details.copy_value")
"""Keys of the details that do nothing where no event is selected: the footer leaves them out there."""

NEED_GROUPING = ("table.by",)
"""Keys of tables that do nothing where rows can be of one sort alone."""

NEED_MATCHED_OPS = ("comparison.next", "comparison.previous")
"""Keys of a comparison that do nothing while no ops stand under each other."""

NEED_ROWS = (
    *("table.choose", "table.chart", "table.window", "table.sort_next", "table.reverse", "table.copy"),
    *("arrivals.next", "arrivals.previous", "arrivals.latest", "arrivals.choose"),
    *("map.zoom_in", "map.fit", "map.value", "map.order", "map.worst", "map.choose"),
    *("flame.zoom", "flame.out", "flame.every", "flame.source", "flame.go", "flame.find"),
)
"""Keys of tables, arrivals, rank maps and flame graphs that do nothing where there is no row."""

_PANE_NAMES: dict[Group, str] = {
    "timeline": "the timeline", "lanes": "the timeline", "table": "tables", "flame": "the flame graph",
    "details": "the details",
}  # fmt: skip


def other_pane_key_message(table: Sequence[Key], here: Group, pressed: Sequence[str], room: int) -> str:
    """Message about a key that does nothing `here` but works in another pane.

    Empty for a key that is not in the table, or whose pane no key leads to. The meaning of the key is cut to as many
    words as fit in the `room`, in cells.
    """
    for key in table:
        if key.group in _PANE_NAMES and key.group != here and not {*key.keys}.isdisjoint(pressed):
            name = pressed[-1] if len(pressed[-1]) == 1 else key.shown.split()[0]
            goes = key_text(table, "pane.timeline") if key.group in ("timeline", "lanes") else ""
            where = _PANE_NAMES[key.group] + (f" ({goes} goes there)" if goes else "")
            return _fit_meaning(
                f"{name} does nothing in {_PANE_NAMES.get(here, 'this pane')}; in {where}", key.meaning, room
            )
    return ""


def _fit_meaning(places: str, meaning: str, room: int) -> str:
    """A key's places and its meaning, which is cut behind one of its words where both do not fit."""
    said = f"{places}: {meaning}"
    while len(said) > room and len(said) > len(places):
        meaning = meaning.rpartition(" ")[0]
        said = f"{places}: {meaning}…" if meaning else places
    return said


SHARED_KEYS: Final = (
    "help", "palette", "focus.next", "focus.previous", "copy_command", "notes", "hlo", "repaint", "suspend", "quit",
)  # fmt: skip
"""Keys that mean here what they mean in the explorer."""

EXPLORER_ONLY_KEYS: Final = ("timeline.cause", "timeline.effects", "timeline.place", "table.by")
"""Keys of a timeline and of tables that only the explorer of one run has."""

CHANGED_ACTIONS: Final = {
    "focus.next": "pass_keys(1)",
    "focus.previous": "pass_keys(-1)",
    "menu": "elsewhere('has a menu')",
    "settings": "elsewhere('has settings to choose')",
}
"""What keys of the whole explorer do on this screen; those for what there is of one run alone say where that is."""


def comparison_keys(table: Sequence[Key]) -> tuple[Key, ...]:
    """The keys of this screen, of a table of all."""
    groups = ("comparison", "timeline", "lanes", "table", "prompt")
    return tuple(
        key for key in table if key.id in SHARED_KEYS or (key.group in groups and key.id not in EXPLORER_ONLY_KEYS)
    )


def comparison_bindings() -> list[Binding]:
    """Textual bindings of the keys that work on the whole screen."""
    every = [*textual_bindings("everywhere"), *textual_bindings("comparison")]
    own = {key.id for key in KEYS if key.group == "comparison"}
    return [
        dataclasses.replace(each, action=CHANGED_ACTIONS.get(each.id, each.action))
        for each in every
        if isinstance(each, Binding) and each.id in {*SHARED_KEYS, *CHANGED_ACTIONS, *own}
    ]


def with_comparison_keys_everywhere(table: Sequence[Key]) -> tuple[Key, ...]:
    """The keys with those of this screen among the ones that a footer names on every pane."""
    return tuple(replace(key, group="everywhere") if key.group == "comparison" else key for key in table)
