"""What the comparison of two runs says in words: of steps, of pairs of them, and of ops in slots.

Owns sentences, made of plain values. Knows no widget.
"""

from __future__ import annotations

from tracehound.diff.slots import KINDS, Slotted
from tracehound.ui.state.abreast import Step
from tracehound.units import difference, duration, growth


def of_step(step: Step) -> str:
    """``step 12, 66.95 ms``."""
    return f"step {step.number}, {duration(step.length)}"


def of_pair(base: Step | None, other: Step | None, ranks: int) -> str:
    """``step 6: -48.97 ms (-27.96 %)``: which steps lie one under the other, and how much longer the other one is.

    Of several `ranks` it says whose they are: the tables have the average of all.
    """
    if base is None or other is None:
        return ""
    before, after = base.length, other.length
    relative = f" ({growth((after - before) / before)})" if before else ""
    which = f"step {base.number}" if base.number == other.number else f"steps {base.number} and {other.number}"
    whose = " against ".join(dict.fromkeys(f"rank {step.rank}" for step in (base, other)))
    return f"{which}{f' of {whose}' * (ranks > 1)}: {difference(after - before)}{relative}"


def of_slots(slots: Slotted | None) -> str:
    """``900 the same, 17 slower, 27 faster, 515 added, 30 removed``: how many ops are what."""
    if slots is None:
        return ""
    return ", ".join(f"{count:,} {kind}" for count, kind in zip(slots.counts, KINDS, strict=True) if count) or "no ops"
