"""Distributions of lengths: histograms, box plots of ranks, and the delays and lengths of launches."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from tracehound.analysis.result import Column, Result
from tracehound.draw.charts import primitives
from tracehound.draw.charts.primitives import ChartSize
from tracehound.draw.name_shortening import shorten_and_pad
from tracehound.draw.rank_groups import MANY_RANKS, label_ranks, number_alike_ranks, ranks_cell
from tracehound.draw.text_wrapping import join_fitting_parts
from tracehound.model.units import count_noun, format_count, format_duration
from tracehound.numeric.intervals import Ints

MEDIAN_CELLS: Final = 12
"""Cells beside a box: its median."""


LOG_SCALE_RATIO = 30
"""A histogram has a logarithmic scale if the longest is more than this multiple of the shortest."""


FEWEST_BINS = 8
"""Columns of a histogram, at least."""


_LAUNCH_MEASURES: Final = (("delay", "delays of work"), ("device_time", "lengths of work"), ("call_time", "calls"))
"""The measures of launches that are drawn, and their names."""


def draw_length_spread(lengths: Ints, ranks: Ints, outliers: Collection[int], size: ChartSize) -> list[str]:
    """A histogram of lengths (ps); for several ranks also a box for each, with outliers (`outliers`) marked."""
    if len(np.unique(ranks)) < 2:
        return draw_histogram(lengths, size)
    boxes = draw_rank_boxes(lengths, ranks, outliers, (size[0], size[1] - max(5, size[1] // 3)))
    return [*boxes, *draw_histogram(lengths, (size[0], size[1] - len(boxes)))]


def draw_rank_boxes(lengths: Ints, ranks: Ints, outliers: Collection[int], size: ChartSize) -> list[str]:
    """A line from the shortest to p99 for each rank, with a box over the middle half, and the median beside it.

    Of many ranks, those that are alike share the line of the first. If not all fit, outliers come first, then those
    with the longest medians.
    """
    width, height = size
    boxes = {rank: np.percentile(lengths[ranks == rank], (0, 25, 50, 75, 99)) for rank in np.unique(ranks).tolist()}
    groups = _alike_boxes(boxes, outliers)
    texts = {rank: label_ranks(ranks_cell(group)) for rank, group in groups.items()}
    label = max(map(len, texts.values())) + 2
    inner = width - label - 2 - MEDIAN_CELLS
    if inner < 12 or height < 2:
        return []
    order = sorted(groups, key=lambda rank: (rank not in outliers, -boxes[rank][2]))[: height - 1]
    low, high = min(box[0] for box in boxes.values()), max(box[4] for box in boxes.values())
    scale = (inner - 1) / max(1.0, high - low)
    lines = []
    for rank in sorted(order):
        at = [round((edge - low) * scale) for edge in boxes[rank]]
        cells = [" "] * inner
        cells[at[0] : at[4] + 1] = "─" * (at[4] + 1 - at[0])
        cells[at[1] : at[3] + 1] = "▒" * (at[3] + 1 - at[1])
        cells[at[2]] = "█"
        mark = "!" if rank in outliers else " "
        lines.append(
            f"{f'{texts[rank]} {mark}':<{label}} {''.join(cells)} "
            f"{format_duration(round(boxes[rank][2])):>{MEDIAN_CELLS}}"
        )
    more = len(boxes) - sum(len(groups[rank]) for rank in order)
    caption = [f"{format_count(more)} more ranks"] if more else []
    caption += ["! stands out by its sum"] if outliers else []
    caption += [
        "shortest ─ middle half ▒ median █ to p99",
        " to ".join(durations_as_distinct_text((round(low), round(high)))),
    ]
    while len(", ".join(caption)) > width and len(caption) > 1:
        caption.pop()
    return [*lines, shorten_and_pad(", ".join(caption), width)]


def _alike_boxes(boxes: Mapping[int, npt.NDArray[np.float64]], outliers: Collection[int]) -> dict[int, list[int]]:
    """The ranks with alike boxes by the first of them; each rank alone if they are few."""
    if len(boxes) <= MANY_RANKS:
        return {rank: [rank] for rank in boxes}
    columns = [Column(f"edge{edge}", "time", "edge of the box") for edge in range(5)]
    table = pl.DataFrame([*boxes.values()], schema=[column.name for column in columns], orient="row")
    group_numbers, groups = number_alike_ranks(table, columns, widest=1).to_list(), dict[tuple[int, bool], list[int]]()
    for rank, number in zip(boxes, group_numbers, strict=True):
        groups.setdefault((number, rank in outliers), []).append(rank)
    return {group[0]: group for group in groups.values()}


def draw_histogram(lengths: npt.NDArray[np.int64], size: ChartSize, what: str = "executions") -> list[str]:
    """A histogram of lengths (ps), on a logarithmic scale if they differ much.

    `what` names what has these lengths. If all are equal, the axis shows that length once; one length alone has no
    statistics.
    """
    width, height = size
    if not len(lengths) or width < 24 or height < 4:
        return []
    low, high = int(lengths.min()), int(lengths.max())
    logarithmic = low > 0 and high > LOG_SCALE_RATIO * low
    scale: Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]] = np.log if logarithmic else np.asarray
    ends = scale(np.array([low, max(high, low + 1)], np.float64))
    bin_width = max(1, width // max(FEWEST_BINS, round(2 * len(lengths) ** 0.5)))
    numbers, _ = np.histogram(scale(lengths.astype(np.float64)), width // bin_width, (float(ends[0]), float(ends[1])))
    columns = primitives.draw_columns(np.repeat(numbers, bin_width), height - 2)
    middle, late = (format_duration(round(float(np.percentile(lengths, part)))) for part in (50, 99))
    center = float(np.exp(ends.mean())) if logarithmic else float(ends.mean())
    caption = [f"median {middle}", f"p99 {late}"]
    caption += ["log scale"] if logarithmic else []
    caption.append(f"highest {format_count(int(numbers.max()))}")
    axis = _spread_labels(durations_as_distinct_text((low, round(center), high)), len(columns[0])).ljust(width)
    caption = caption if len(lengths) > 1 else []
    axis = axis if low < high else format_duration(low).center(width)
    noun, space, rest = what.partition(" ")
    caption.insert(0, count_noun(len(lengths), f"{noun.removesuffix('s')}{space}{rest}", what))
    return [*(line.ljust(width) for line in columns), axis, shorten_and_pad(join_fitting_parts(caption, width), width)]


def durations_as_distinct_text(lengths: Sequence[int]) -> list[str]:
    """Lengths (ps) as distinct text: if four digits are too few, as differences from the first."""
    words = [format_duration(length) for length in lengths]
    if len(set(words)) == len(set(lengths)):
        return words
    return [words[0], *(f"+{format_duration(length - lengths[0])}" for length in lengths[1:])]


def _spread_labels(words: list[str], width: int) -> str:
    """Three labels at the left, in the middle and at the right of a line."""
    left, middle, right = words
    line = left + middle.center(max(0, width - 2 * max(len(left), len(right)))).rjust(
        max(0, width - max(len(left), len(right)) - len(left))
    )
    return line[: width - len(right)].ljust(width - len(right)) + right


def draw_launch_histograms(launches: Result, row: Mapping[str, Any], size: ChartSize) -> list[str]:
    """Histograms for the calls of a row: delays of their work, lengths of the work, and lengths of the calls.

    `launches` has a row for each launch.
    """
    width, height = size
    table = launches.table.filter(
        pl.col("rank").eq_missing(row.get("rank")) & pl.col("call").eq_missing(row.get("call"))
    )
    fit = max(1, min(len(_LAUNCH_MEASURES), height // 5))
    parts, each = _LAUNCH_MEASURES[:fit], height // fit
    lines = []
    for name, words in parts:
        lengths = table[name].drop_nulls().to_numpy()
        drawn = draw_histogram(lengths, (width, each - 1), words)
        lines += [*drawn, " " * width] if drawn else []
    return lines[:-1]
