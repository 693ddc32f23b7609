"""SQL over a trace, for both faces: `TABLES` is what a statement may name, `prepare` checks one, `answer` runs it."""

from __future__ import annotations

from tracehound.query.answering import Query, answer, prepare
from tracehound.query.refusal import named
from tracehound.query.tables import TABLES, Table, refuse_idle, settled

__all__ = ["TABLES", "Query", "Table", "answer", "named", "prepare", "refuse_idle", "settled"]
