"""A chart fits the size that it has."""

from __future__ import annotations

from textual import events
from textual.app import App, ComposeResult

from exploring import until
from tracehound.draw.glyphs import UNICODE
from tracehound.ui.widgets.chart_view import ChartView


class Untold(ChartView):
    """A chart that never hears of another size."""

    def on_resize(self, event: events.Resize) -> None:
        """Keep it from what a chart does then."""
        event.prevent_default()


class Chart(App[None]):
    """One chart."""

    def compose(self) -> ComposeResult:
        """The chart alone."""
        yield Untold(UNICODE)


async def test_it_is_drawn_for_the_size_that_it_is_painted_in() -> None:
    app = Chart()
    async with app.run_test(size=(40, 10)) as pilot:
        chart = app.query_one(ChartView)
        chart.draws = lambda size: ["{} x {}".format(*size)]
        await pilot.pause()
        assert chart.render_line(0).text.strip() == "38 x 10"
        await pilot.resize_terminal(30, 5)
        await until(pilot, lambda: chart.render_line(0).text.strip() == "28 x 5")
