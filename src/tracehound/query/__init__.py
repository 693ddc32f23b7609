"""SQL over a trace: `ALL_TABLES` can be queried, `prepare_query` checks a statement, `answer_query` runs it."""

from __future__ import annotations

from tracehound.query.polars_errors import find_table
from tracehound.query.run_query import CheckedQuery, answer_query, prepare_query
from tracehound.query.sql_tables import ALL_TABLES, SqlTable, refuse_unused_settings, table_with_settings

__all__ = [
    "ALL_TABLES",
    "CheckedQuery",
    "SqlTable",
    "answer_query",
    "find_table",
    "prepare_query",
    "refuse_unused_settings",
    "table_with_settings",
]
