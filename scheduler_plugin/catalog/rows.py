"""A catalog as the rows the store keeps, and those rows as the brain's objects.

Whoever runs (the loop, a job, the landing watcher, a reader) works from the rows in force, so that all of them see the
same catalog at the same time, whatever stands in the file by then. A spec is plain JSON:

    table   feed, landing, format, period, interval, columns, key, expectations, max_batch, weight, staleness_limit,
            access
    view    sql, reads, virtual, when_parent_blocked, weight, staleness_limit, access

`landing` is as written (see `landing_path`); `interval` is for `interval_rule`. `reads` names the tables and
materialized views whose snapshots a refresh is computed from, `virtual` the SQL of the virtual views between.
"""

import re
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from scheduler_plugin.brain import objects as brain
from scheduler_plugin.catalog.model import Catalog, ColumnInterval, PatternInterval, Table, View
from scheduler_plugin.store.objects import CatalogRow, ObjectRow

#: Slot-seconds to assume of a job until the first one has been measured; the second is for each file of a batch.
FIRST_COST = 1.0
FIRST_COST_PER_UPDATE = 0.01


def catalog_row(catalog: Catalog) -> CatalogRow:
    """What `store.objects.take_in` takes in: settings, and the objects in the order of the file."""
    return CatalogRow(
        settings={
            "slots": catalog.slots,
            "groups": [
                {"name": group.name, "slots": group.slots, "objects": list(group.objects)}
                for group in catalog.groups.values()
            ],
            "policy": {"name": catalog.policy.name, "params": dict(catalog.policy.params)},
            "tick_seconds": catalog.tick_seconds,
            "burst_bytes": catalog.burst_bytes,
            "alerts": [asdict(alert) for alert in catalog.alerts.values()],
        },
        objects=[
            *(
                ObjectRow(name=table.name, kind="table", materialized=True, parents=(), spec=_table(catalog, table))
                for table in catalog.tables.values()
            ),
            *(
                ObjectRow(
                    name=view.name,
                    kind="view",
                    materialized=view.materialized,
                    parents=view.parents,
                    spec=_view(catalog, view),
                )
                for view in catalog.views.values()
            ),
        ],
    )


def declared(row: CatalogRow) -> list[brain.Declared]:
    """The objects as the brain wants them, in the same order. `access` is reads per minute, times the weight."""
    return [
        brain.Table(
            name=item.name,
            fixed=FIRST_COST,
            per_update=FIRST_COST_PER_UPDATE,
            weight=item.spec["weight"],
            access=item.spec["access"] * item.spec["weight"],
            period=item.spec["period"],
            limit=item.spec["staleness_limit"],
        )
        if item.kind != "view"
        else brain.View(
            name=item.name,
            parents=tuple(item.parents),
            cost=FIRST_COST,
            access=item.spec["access"] * item.spec["weight"],
            materialized=item.materialized,
            limit=item.spec["staleness_limit"],
        )
        for item in row.objects
    ]


def interval_rule(spec: Mapping[str, Any]) -> ColumnInterval | PatternInterval | None:
    """A table's rule for the time that a file covers."""
    written = spec["interval"]
    if written is None:
        return None
    if "column" in written:
        return ColumnInterval(column=written["column"], length=written["length"])
    return PatternInterval(pattern=re.compile(written["pattern"]), format=written["format"], length=written["length"])


def _table(catalog: Catalog, table: Table) -> dict[str, Any]:
    feed = catalog.feeds[table.feed]
    return {
        "feed": feed.name,
        "landing": feed.landing,
        "format": feed.format,
        "period": feed.period,
        "interval": _interval(feed.interval),
        "columns": [[column, kind] for column, kind in table.columns.items()],
        "key": list(table.key),
        "expectations": [
            {"expect": each.expect, "on_fail": each.on_fail, "arguments": dict(each.arguments)}
            for each in table.expectations
        ],
        "max_batch": feed.max_batch,
        **_wishes(table),
    }


def _interval(rule: ColumnInterval | PatternInterval | None) -> dict[str, Any] | None:
    if rule is None:
        return None
    if isinstance(rule, ColumnInterval):
        return {"column": rule.column, "length": rule.length}
    return {"pattern": rule.pattern.pattern, "format": rule.format, "length": rule.length}


def _view(catalog: Catalog, view: View) -> dict[str, Any]:
    reads: set[str] = set()
    virtual: dict[str, str] = {}
    ahead = list(view.parents)
    while ahead:
        name = ahead.pop()
        parent = catalog.views.get(name)
        if parent is None or parent.materialized:
            reads.add(name)
        elif name not in virtual:
            virtual[name] = parent.sql
            ahead += parent.parents
    return {
        "sql": view.sql,
        "reads": sorted(reads),
        "virtual": virtual,
        "when_parent_blocked": view.when_parent_blocked,
        **_wishes(view),
    }


def _wishes(item: Table | View) -> dict[str, Any]:
    return {"weight": item.weight, "staleness_limit": item.staleness_limit, "access": item.access}
