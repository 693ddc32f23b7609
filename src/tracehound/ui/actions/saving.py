"""What a table shows, written to a file in the background.

Owns that, and what is said of it. Knows no widget but the pane that asked.
"""

from __future__ import annotations

from tracehound.errors import TracehoundError, printable
from tracehound.report import about, saving
from tracehound.trace import Trace
from tracehound.ui.background.threads import Background
from tracehound.ui.panes.pane import TablePane
from tracehound.ui.state.view import View


def save(background: Background, trace: Trace, view: View, asked: TablePane.SaveAsked) -> None:
    """Write what was asked for, and have the pane told."""
    window = view.window.at(*(asked.window or (None, None)))

    def work() -> None:
        try:
            write = saving.create if asked.how == "new" else saving.replace
            write(asked.path, about(trace, window), asked.result)
        except FileExistsError:
            asked.pane.post_message(TablePane.Saved(asked, taken=True))
        except TracehoundError as error:
            words = f"{error.message}; {error.remedy}" if error.remedy else error.message
            asked.pane.post_message(TablePane.Saved(asked, failure=printable(words)))
        else:
            asked.pane.post_message(TablePane.Saved(asked))

    background.submit(
        f"saving {asked.path}", work, lambda why: asked.pane.post_message(TablePane.Saved(asked, failure=why))
    )
