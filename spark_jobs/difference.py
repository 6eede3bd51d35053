"""Which views can be refreshed from what was added to a parent, derived from their SQL.

A query is linear in a parent when the query over old and new rows gives the old result plus the query over the new rows
alone: filters, projections, and joins that keep each new row apart from the old ones. A linear view grows by what the
new rows give. Counts, sums, minima, maxima and averages by keys over a linear query are merged by key. Where each
column of the view is a key or one such aggregate, with what the view itself holds; where columns are computed from
several (an average, a share, a rounded sum) or HAVING leaves keys out, with the partial aggregates that each refresh
leaves beside the view's files.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
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
class Average:
    """An average is made of a sum and a count, which are merged in its place."""

    column: str
    #: "AVG(x) FILTER (WHERE y)"; its type decides how the sum is kept.
    sql: str
    #: What is averaged, and the condition or nothing.
    of: str
    when: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How the result over the new rows becomes part of the view."""

    #: None: it is appended. Otherwise the columns by which it is merged, and for each other column the function.
    keys: tuple[str, ...] | None
    merged_by: Mapping[str, str]
    #: The view's columns as SQL over the merged ones, and which rows it has; None when they are the same.
    shown: Mapping[str, str] | None = None
    having: str | None = None
    #: The partial aggregates of the rows read, less those that averages need.
    partial: str | None = None
    averages: tuple[Average, ...] = ()

    def partials(self, decimal: Collection[str]) -> str:
        """The SQL of the partial aggregates; `decimal` are the averages that are decimals, whose sums are exact."""
        assert self.partial is not None, "only a view that is computed from them has partial aggregates"
        query = sqlglot.parse_one(self.partial, read="spark")
        for each in self.averages:
            of = each.of if each.column in decimal else f"CAST({each.of} AS DOUBLE)"
            query = query.select(
                f"SUM({of}){each.when} AS {each.column}_sum", f"COUNT({each.of}){each.when} AS {each.column}_count",
                dialect="spark",
            )  # fmt: skip
        return str(query.sql(dialect="spark"))


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
    parts = PARTS | {"group", "having"} if outermost_group else PARTS
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
    by = [_resolved(each, query) for each in (group.expressions if group is not None else [])]
    for item in query.expressions:
        if not (item.alias or isinstance(item, exp.Column)) or item.is_star:
            raise NotByDifference(f"{item.unalias().sql('spark')} has no name")
    direct = _direct(query, by)
    return direct if direct is not None else _by_partials(query, by)


def _direct(query: exp.Select, by: list[exp.Expression]) -> Way | None:
    """Each column is a key or one aggregate that merges, and every key is a column: the view is its own partials."""
    keys: list[str] = []
    merged_by: dict[str, str] = {}
    for item in query.expressions:
        value = item.unalias()
        bare = value.this if isinstance(value, exp.Filter) else value
        function = MERGED_BY.get(type(bare))
        if any(_same(value, each) for each in by):
            keys.append(item.alias_or_name)
        elif function is None or bare.find(exp.Distinct) or not item.alias:
            return None
        else:
            merged_by[item.alias] = function
    shown = all(any(_same(item.unalias(), each) for item in query.expressions) for each in by)
    return Way(keys=tuple(keys), merged_by=merged_by) if shown and not query.args.get("having") else None


def _by_partials(query: exp.Select, by: list[exp.Expression]) -> Way:
    """Keys and aggregates on their own, and the view's columns computed from them."""
    columns: dict[str, exp.Expression] = {f"k{place}": each for place, each in enumerate(by)}
    merged_by: dict[str, str] = {}
    averages: dict[str, Average] = {}
    names: dict[str, str] = {}

    def aggregate(node: exp.Expression) -> str:
        """The merged column that stands for an aggregate; each different one once."""
        bare = node.this if isinstance(node, exp.Filter) else node
        sql = str(node.sql("spark"))
        function = MERGED_BY.get(type(bare))
        if bare.find(exp.Distinct) or (function is None and not isinstance(bare, exp.Avg)):
            raise NotByDifference(f"{sql} of two parts does not follow from those of the parts")
        if sql not in names:
            names[sql] = name = f"a{len(names)}"
            if function is None:
                when = f" FILTER({node.expression.sql('spark')})" if node is not bare else ""
                averages[name] = Average(column=name, sql=sql, of=str(bare.this.sql("spark")), when=when)
            else:
                columns[name], merged_by[name] = node, function
        return names[sql]

    def computed(node: exp.Expression) -> exp.Expression:
        for place, each in enumerate(by):
            if _same(node, each):
                return exp.column(f"k{place}")
        if isinstance(node, (exp.Filter, exp.AggFunc)):
            return exp.column(aggregate(node))
        if isinstance(node, exp.Query):
            raise NotByDifference("a column is computed with a query of its own")
        if isinstance(node, exp.Column):
            raise NotByDifference(f"{node.sql('spark')} is neither a key nor in an aggregate")
        copy = node.copy()
        for old, new in [(child, computed(child)) for child in copy.iter_expressions()]:
            old.replace(new)
        return copy

    shown = {item.alias_or_name: str(computed(item.unalias()).sql("spark")) for item in query.expressions}
    having = query.args.get("having")
    kept = None if having is None else str(computed(having.this).sql("spark"))
    partial = query.copy()
    partial.set("having", None)
    partial.set("expressions", [exp.alias_(each.copy(), name) for name, each in columns.items()])
    if by:
        partial.set("group", exp.Group(expressions=[each.copy() for each in by]))
    return Way(
        keys=tuple(f"k{place}" for place in range(len(by))),
        merged_by=merged_by,
        shown=shown,
        having=kept,
        partial=str(partial.sql("spark")),
        averages=tuple(averages.values()),
    )


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
    return bool(node.find(exp.AggFunc, exp.Filter))


def _reads(node: exp.Expression, grown: str) -> bool:
    return any(str(table.name).lower() == grown.lower() for table in node.find_all(exp.Table))


def ways(sql: str, virtual: Mapping[str, str], parents: Collection[str]) -> dict[str, str]:
    """For people: how the view follows when each parent grows alone, or why it is then refreshed in full."""
    found = {}
    for name in parents:
        try:
            chosen = way(sql, virtual, name)
        except NotByDifference as reason:
            found[name] = f"in full: {reason}"
            continue
        if chosen.keys is None:
            found[name] = "by difference: new rows are appended"
        else:
            found[name] = f"by difference: merged {'by its keys' if chosen.keys else 'into its one row'}"
    return found
