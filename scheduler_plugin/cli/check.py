"""Check the catalog: every problem at once, or a summary of what it holds. Nothing is started or written."""

import argparse
import json
from pathlib import Path
from typing import Any

from scheduler_plugin.catalog import Catalog, CatalogError, catalog_path, load_catalog
from scheduler_plugin.catalog.problems import shown
from scheduler_plugin.cli.main import UserError


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--catalog", type=Path, help="the file to check (FRESHET_CATALOG, or include/warehouse.yml)")
    parser.add_argument("--json", action="store_true", help="print the summary, or the problems, as JSON")


def run(options: argparse.Namespace) -> int:
    try:
        catalog = load_catalog(options.catalog or catalog_path())
    except CatalogError as error:
        if options.json:
            print(json.dumps({"ok": False, "problems": error.problems}, indent=2))
            return 1
        raise UserError(str(error)) from None
    print(json.dumps(summary(catalog), indent=2) if options.json else prose(catalog))
    return 0


def refreshes(catalog: Catalog) -> dict[str, dict[str, str]]:
    """Materialized view -> parent -> how the view is refreshed when that parent alone grows."""
    from scheduler_plugin.catalog.rows import catalog_row
    from spark_jobs.difference import ways

    views = (row for row in catalog_row(catalog).objects if row.kind == "view" and row.materialized)
    return {row.name: ways(row.spec["sql"], row.spec["virtual"], row.spec["reads"]) for row in views}


def short_limits(catalog: Catalog) -> dict[str, str]:
    """Object -> why no run can keep its limit: some table behind it has something new less often than that."""
    slowest: dict[str, tuple[float, str]] = {}
    told = {}
    for name in catalog.order:
        table = catalog.tables.get(name)
        item = table or catalog.views[name]
        if table is not None:
            slowest[name] = (catalog.feeds[table.feed].period, name)
        else:
            slowest[name] = max(slowest[parent] for parent in catalog.parents(name))
        period, behind = slowest[name]
        if item.staleness_limit is not None and item.staleness_limit < period:
            told[name] = f"over its limit of {item.staleness_limit:g} s between files of {behind}, every {period:g} s"
    return told


def summary(catalog: Catalog) -> dict[str, Any]:
    return {
        "ok": True,
        "catalog": str(catalog.path),
        "fingerprint": catalog.fingerprint,
        "slots": catalog.slots,
        "policy": catalog.policy.name,
        "feeds": len(catalog.feeds),
        "tables": len(catalog.tables),
        "views": len(catalog.views),
        "virtual_views": sum(not view.materialized for view in catalog.views.values()),
        "refreshes": refreshes(catalog),
        "short_limits": short_limits(catalog),
        "levels": [[{"name": name, "parents": catalog.parents(name)} for name in level] for level in catalog.levels],
    }


def prose(catalog: Catalog) -> str:
    virtual = sum(not view.materialized for view in catalog.views.values())
    lines = [
        f"{shown(catalog.path)}: {len(catalog.tables)} tables, {len(catalog.views)} views ({virtual} virtual), "
        f"{len(catalog.levels)} levels, {catalog.slots} slots, policy {catalog.policy.name}. No problems."
    ]
    width = max(map(len, catalog.order))
    how, short = refreshes(catalog), short_limits(catalog)
    for number, level in enumerate(catalog.levels):
        lines.append(f"level {number}")
        for name in level:
            if name in catalog.tables:
                table = catalog.tables[name]
                told = f"table of {len(table.columns)} columns, fed by {table.feed}"
            else:
                view = catalog.views[name]
                told = f"{'reads' if view.materialized else 'virtual, reads'} {', '.join(view.parents)}"
            lines.append(f"  {name:<{width}}  {told}")
            lines += [f"  {'':<{width}}    {short[name]}"] if name in short else []
            lines += [f"  {'':<{width}}    when {parent} grows, {way}" for parent, way in how.get(name, {}).items()]
    return "\n".join(lines)
