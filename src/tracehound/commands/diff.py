"""Two runs compared, and judged where conditions are given."""

from __future__ import annotations

from argparse import Namespace

from tracehound.commands.gate import judge, page_form, profiled, warn
from tracehound.commands.traces import reading
from tracehound.diff import compare, condition, judged, refuse_other
from tracehound.report import page


def run(asked: Namespace) -> int:
    """Print the comparison; 1 when a condition fails."""
    conditions = [condition(text) for text in asked.fail_on]  # what is wrong with one is told before a trace is read
    form = page_form(asked)
    if asked.save_baseline:
        refuse_other(asked.save_baseline)
    with reading(asked) as shop:
        first, second = asked.paths
        base, other = profiled([first], asked, shop, more=True), profiled([second], asked, shop)
    warn({"base": base, "other run": other}, conditions)
    verdicts = judged(base, other, conditions)
    told = page.comparison(compare(base, other, asked.top), verdicts)
    return judge(told, other, verdicts, form, asked)
