"""One run, judged by conditions or kept as a baseline."""

from __future__ import annotations

from argparse import Namespace

from tracehound.commands.gate import judge, page_form, profiled, warn
from tracehound.commands.traces import reading
from tracehound.diff import condition, judged_alone, refuse_other
from tracehound.errors import TracehoundError
from tracehound.report import page


def run(asked: Namespace) -> int:
    """Print what came of the conditions; 1 when one fails."""
    conditions = [condition(text) for text in asked.fail_on]
    if not conditions and not asked.save_baseline:
        raise TracehoundError("no condition", remedy="tracehound check PATH... --fail-on 'idle > 20%'")
    form = page_form(asked)
    if asked.save_baseline:
        refuse_other(asked.save_baseline)
    with reading(asked) as shop:
        found = profiled(asked.paths, asked, shop)
    warn({"run": found}, conditions)
    verdicts = judged_alone(found, conditions)
    return judge(page.check(found, verdicts), found, verdicts, form, asked)
