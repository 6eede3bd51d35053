"""Which views can be refreshed from what was added to a parent, derived from their SQL.

A query is linear in a parent when the query over old and new rows gives the old result plus the query over the new rows
alone: filters, projections, and joins that keep each new row apart from the old ones. A linear view grows by what the
new rows give. Counts, sums, minima and maxima by keys over a linear query are merged with what the view holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import sqlglot
from sqlglot import exp

#: How an aggregate of two parts comes from the aggregates of the parts.
MERGED_BY = {exp.Count: "sum", exp.CountIf: "sum", exp.Sum: "sum", exp.Min: "min", exp.Max: "max"}
#: What a linear SELECT may consist of; WITH is expanded by then, and `group` is for the outermost one.
PARTS = {"expressions", "from_", "joins", "where"}
#: They give something else each time, and so the difference would not be what the whole is.
RESTLESS = (exp.Rand, exp.Randn, exp.Uuid, exp.CurrentTimestamp, exp.CurrentDate, exp.CurrentTime, exp.UnixSeconds)
#: Functions of Spark's that the parser does not know, of which we know that they look at one row and nothing else.
PLAIN = {"make_date", "make_timestamp", "make_ym_interval", "make_dt_interval", "try_divide", "positive", "bround"}


class NotByDifference(Exception):
    """Why a view is refreshed in full."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How the result over the new rows becomes part of the view."""

    #: None: it is appended. Otherwise the columns by which it is merged, and for each other column the function.
    keys: tuple[str, ...] | None
    merged_by: Mapping[str, str]


def way(sql: str, virtual: Mapping[str, str], grown: str) -> Way:
    """How the view follows when `grown` grows and nothing else changes; NotByDifference says why it cannot."""
    query = _expanded(_parsed(sql), {name.lower(): _parsed(text) for name, text in virtual.items()})
    times = sum(table.name.lower() == grown.lower() for table in query.find_all(exp.Table))
    if times != 1:
        raise NotByDifference(f"it reads `{grown}` {times} times")
    for node in query.find_all(exp.Func, exp.Window):
        if isinstance(node, RESTLESS):
            raise NotByDifference(f"{node.sql_name()} gives something else each time")
        if isinstance(node, exp.Anonymous) and node.name.lower() not in PLAIN:
            raise NotByDifference(f"nothing is known here of the function {node.name}")
    if not isinstance(query, exp.Select):
        raise NotByDifference(f"it is a {query.key.upper()}, not one SELECT")
    grouped = query.args.get("group") is not None or any(_aggregates(each) for each in query.expressions)
    _require_linear(query, grown, outermost_group=grouped)
    return _merged(query) if grouped else Way(keys=None, merged_by={})


def _parsed(sql: str) -> exp.Expression:
    try:
        return sqlglot.parse_one(sql, read="spark")
    except sqlglot.errors.SqlglotError as error:
        raise NotByDifference(f"its SQL is not understood here: {str(error).splitlines()[0]}") from error


def _expanded(query: exp.Expression, known: Mapping[str, exp.Expression]) -> exp.Expression:
    """The query with the bodies of virtual views and WITH clauses in the places of their names."""
    known = dict(known)
    for clause in query.ctes if isinstance(query, exp.Query) else []:
        known[clause.alias.lower()] = _expanded(clause.this, known)
    query = query.copy()
    query.set("with_", None)
    for table in list(query.find_all(exp.Table)):
        body = known.get(table.name.lower())
        if body is not None and not table.db:
            inner = {name: each for name, each in known.items() if name != table.name.lower()}
            alias = exp.TableAlias(this=exp.to_identifier(table.alias_or_name))
            table.replace(exp.Subquery(this=_expanded(body, inner), alias=alias))
    return query


def _require_linear(query: exp.Expression, grown: str, *, outermost_group: bool = False) -> None:
    if not isinstance(query, exp.Select):
        raise NotByDifference(f"`{grown}` is read within a {query.key.upper()}")
    parts = PARTS | {"group"} if outermost_group else PARTS
    if other := [part for part, value in query.args.items() if value and part not in parts]:
        raise NotByDifference(f"it has {other[0].strip('_').upper()}")
    joins: list[exp.Join] = query.args.get("joins") or []
    within = [*query.expressions, query.args.get("where"), *(join.args.get("on") for join in joins)]
    for each in within:
        if each is None:
            continue
        if each.find(exp.Window):
            raise NotByDifference("it has a window function")
        if each.find(exp.Subquery, exp.Exists, exp.In) and _reads(each, grown):
            raise NotByDifference(f"`{grown}` is read within an expression")
        if not outermost_group and _aggregates(each):
            raise NotByDifference("it aggregates below the outermost SELECT")
    sources = [query.args["from_"].this, *(join.this for join in joins)]
    place = next((number for number, source in enumerate(sources) if _reads(source, grown)), None)
    if place is None:
        raise NotByDifference(f"`{grown}` is read in a place not understood here")
    if place and joins[place - 1].side not in ("", "RIGHT"):
        raise NotByDifference(f"a new row of `{grown}` may change what older rows are joined with")
    if place and joins[place - 1].kind not in ("", "INNER", "CROSS"):
        raise NotByDifference(f"`{grown}` is on the right of a {joins[place - 1].kind} JOIN")
    if any(join.side not in ("", "LEFT") for join in joins[place:]):
        raise NotByDifference(f"a new row of `{grown}` may change what rows of other parents are joined with")
    source = sources[place]
    if isinstance(source, exp.Subquery):
        _require_linear(source.this, grown)
    elif not isinstance(source, exp.Table):
        raise NotByDifference(f"`{grown}` is read within a {source.key.upper()}")
    if extra := [part for part, value in source.args.items() if value and part not in ("this", "alias", "db")]:
        raise NotByDifference(f"`{grown}` is read with {extra[0].upper()}")


def _merged(query: exp.Select) -> Way:
    group = query.args.get("group")
    if group is not None and [part for part, value in group.args.items() if value and part != "expressions"]:
        raise NotByDifference("it groups by more than plain keys")
    keys: list[str] = []
    merged_by: dict[str, str] = {}
    by = [_resolved(each, query) for each in (group.expressions if group is not None else [])]
    for item in query.expressions:
        value = item.unalias()
        function = MERGED_BY.get(type(value))
        if any(_same(value, each) for each in by):
            if not item.alias_or_name:
                raise NotByDifference(f"{value.sql('spark')} has no name")
            keys.append(item.alias_or_name)
        elif function is None or value.find(exp.Distinct):
            raise NotByDifference(f"{value.sql('spark')} of two parts does not follow from those of the parts")
        elif not item.alias:
            raise NotByDifference(f"{value.sql('spark')} has no name")
        else:
            merged_by[item.alias] = function
    for each in by:
        if not any(_same(item.unalias(), each) for item in query.expressions):
            raise NotByDifference(f"it groups by {each.sql('spark')}, which is not among its columns")
    return Way(keys=tuple(keys), merged_by=merged_by)


def _resolved(by: exp.Expression, query: exp.Select) -> exp.Expression:
    """What a GROUP BY item stands for: a number, or a column's new name, means that column's expression."""
    if isinstance(by, exp.Literal) and not by.is_string:
        return query.expressions[int(by.this) - 1].unalias()
    if isinstance(by, exp.Column) and not by.table:
        inputs = {each.name.lower() for item in query.expressions for each in item.unalias().find_all(exp.Column)}
        renamed = [item for item in query.expressions if item.alias and item.alias.lower() == by.name.lower()]
        if renamed and by.name.lower() not in inputs:
            return renamed[0].unalias()
    return by


def _same(one: exp.Expression, other: exp.Expression) -> bool:
    if isinstance(one, exp.Column) and isinstance(other, exp.Column) and not (one.table and other.table):
        return str(one.name).lower() == str(other.name).lower()
    return bool(one == other)


def _aggregates(node: exp.Expression) -> bool:
    return bool(node.find(exp.AggFunc))


def _reads(node: exp.Expression, grown: str) -> bool:
    return any(str(table.name).lower() == grown.lower() for table in node.find_all(exp.Table))
