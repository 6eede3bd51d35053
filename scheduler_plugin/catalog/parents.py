"""A view's parents, read from its SQL with sqlglot (Spark's dialect).

A name after FROM or JOIN is a parent unless a WITH around it, at any depth, gives that name to a common table
expression. A CTE sees the ones before it but not itself, so `WITH flights AS (SELECT * FROM flights)` does read the
table `flights`. Names are lower-cased, as Spark compares them.
"""

import re
from functools import lru_cache
from typing import Any


class NotASelectError(ValueError):
    """The SQL cannot be a view; the message says why, `place` where (":line:column", or nothing)."""

    def __init__(self, message: str, place: str = "") -> None:
        super().__init__(message)
        self.place = place


@lru_cache(maxsize=20_000)
def parents_of(sql: str) -> tuple[str, ...]:
    """The names the SQL reads, sorted; NotASelectError when it is no single SELECT. A text is parsed once a process."""
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import ParseError, TokenError

    try:
        statements = [each for each in sqlglot.parse(sql, read="spark") if each is not None]
    except ParseError as error:
        first = error.errors[0]
        why = re.sub(r"<class '.*?(\w+)'>", r"\1", first["description"]).rstrip(".")
        near = f" near `{first['highlight']}`" if (first["highlight"] or "").strip() else ""
        raise NotASelectError(f"does not parse{near}: {why}.", f":{first['line']}:{first['col']}") from None
    except TokenError as error:
        # The cause says "Missing ' from 2:26"; an unfinished comment has none.
        open_at = re.fullmatch(r"Missing (.*) from (\d+:\d+)", str(error.__cause__))
        why = f"a closing {open_at[1]} is missing" if open_at else "a comment or a quote is not closed"
        raise NotASelectError(f"does not parse: {why}.", f":{open_at[2]}" if open_at else "") from None
    statements = [each for each in statements if not isinstance(each, exp.Semicolon)]
    if len(statements) != 1:
        count = "no statement" if not statements else f"{len(statements)} statements"
        raise NotASelectError(f"holds {count}. A view is a single SELECT.")
    if not isinstance(statements[0], exp.Query) or statements[0].find(exp.Into):
        raise NotASelectError(f"is a statement of kind {statements[0].key.upper()}. A view is a single SELECT.")
    found: set[str] = set()
    _collect(statements[0], frozenset(), found)
    return tuple(sorted(found))


def _collect(root: Any, outside: frozenset[str], found: set[str]) -> None:
    """Adds the tables below `root` that none of the `outside` CTE names hides. A stack, so deep SQL is no problem."""
    from sqlglot import exp

    stack = [(root, outside)]
    while stack:
        node, hidden = stack.pop()
        clause = node.args.get("with_")
        if clause is not None:
            for cte in clause.expressions:
                alias = cte.alias.lower()
                stack.append((cte.this, hidden | {alias} if clause.recursive else hidden))
                hidden = hidden | {alias}
        if isinstance(node, exp.Table):
            name = ".".join(part.name for part in node.parts).lower()
            if isinstance(node.this, exp.Identifier):
                found.update({name} - hidden)
            elif name == "identifier" or not isinstance(node.this, exp.Func):
                raise NotASelectError(f"reads a table by a computed name, `{node.sql('spark')}`. Write the name.")
        stack.extend((child, hidden) for child in node.iter_expressions() if child is not clause)
