"""Reads found in a log of queries: one query a line, as SQL or as a JSON object that holds it."""

import json
from collections import Counter
from collections.abc import Collection, Iterable

from scheduler_plugin.catalog.parents import NotASelectError, parents_of

#: Under which of these a JSON line may hold its SQL.
KEYS = ("sql", "query", "statement")


def reads_of(lines: Iterable[str], known: Collection[str]) -> tuple[Counter[str], int]:
    """How often each object of the catalog was read, and how many lines said nothing of it."""
    counted: Counter[str] = Counter()
    passed_over = 0
    for line in lines:
        if not line.strip():
            continue
        sql, number = _entry(line)
        try:
            names = [name for name in parents_of(sql) if name in known]
        except (NotASelectError, RecursionError):
            names = []
        counted.update(dict.fromkeys(names, number))
        passed_over += not names
    return counted, passed_over


def _entry(line: str) -> tuple[str, int]:
    if line.lstrip().startswith("{"):
        try:
            entry = json.loads(line)
        except json.JSONDecodeError:
            return "", 0
        sql = next((entry[key] for key in KEYS if isinstance(entry.get(key), str)), "")
        number = entry.get("count", 1)
        return sql, number if isinstance(number, int) and number > 0 else 1
    return line, 1
