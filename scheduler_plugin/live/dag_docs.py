"""What Airflow shows of each object's DAG, made from the catalog: its name, tags, owner, lineage and documentation."""

from collections.abc import Sequence
from dataclasses import dataclass

from scheduler_plugin.brain.graph import Graph
from scheduler_plugin.catalog import Catalog, catalog_path, load_catalog
from scheduler_plugin.catalog.rows import catalog_row, declared
from scheduler_plugin.live.scheduler import dag_id


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentedObject:
    name: str
    dag_id: str
    display_name: str
    tags: Sequence[str]
    owner: str
    doc: str
    #: The objects whose content its jobs read: the parents, and through virtual ones theirs.
    reads: Sequence[str]


def documented_objects() -> list[DocumentedObject]:
    """Every object that has jobs; a virtual view has none."""
    catalog = load_catalog(catalog_path())
    row = catalog_row(catalog)
    graph = Graph(declared(row))
    groups = {name: group.name for group in catalog.groups.values() for name in group.objects}
    found = []
    for item in row.objects:
        if not item.materialized:
            continue
        name, is_table = item.name, item.kind == "table"
        read_by = [graph.names[child] for child in graph.children[graph.index[name]]]
        tags = [item.kind, f"level:{graph.level[graph.index[name]]}"]
        tags += [f"feed:{catalog.tables[name].feed}"] if is_table else []
        tags += [f"group:{groups[name]}"] if name in groups else []
        found.append(
            DocumentedObject(
                name=name,
                dag_id=dag_id(name, item.kind),
                display_name=f"Load {name}" if is_table else f"Refresh {name}",
                tags=tags,
                owner=catalog.tables[name].owner if is_table else catalog.views[name].owner,
                doc=_table(catalog, name, read_by) if is_table else _view(catalog, name, read_by),
                reads=item.spec.get("reads", ()),
            )
        )
    return found


def _table(catalog: Catalog, name: str, read_by: Sequence[str]) -> str:
    table, feed = catalog.tables[name], catalog.feeds[catalog.tables[name].feed]
    columns = "\n".join(f"| `{column}` | {kind} |" for column, kind in table.columns.items())
    expected = "".join(f"- `{each.expect}` ({each.on_fail})\n" for each in table.expectations)
    return (
        f"**Table `{name}`**, filled by feed `{feed.name}` ({feed.format}, about every {feed.period:g} s).\n\n"
        f"{_promise(table.staleness_limit)}{_children(read_by)}\n\n{ORDERS}\n\n"
        f"| column | type |\n| --- | --- |\n{columns}\n"
        + (f"\nWhat is expected of each batch:\n\n{expected}" * bool(expected))
    )


def _view(catalog: Catalog, name: str, read_by: Sequence[str]) -> str:
    view = catalog.views[name]
    parents = ", ".join(f"`{parent}`" for parent in view.parents)
    return (
        f"**View `{name}`**, derived from {parents or 'nothing'}.\n\n"
        f"{_promise(view.staleness_limit)}{_children(read_by)}\n\n{ORDERS}\n\n```sql\n{view.sql.strip()}\n```\n"
    )


ORDERS = (
    "Freshet starts this DAG when its turn comes; each run's note says why. Pausing the DAG holds the object; the tab "
    "*Freshness* shows how stale it is and when it will run."
)


def _promise(limit: float | None) -> str:
    return f"It should never be more than {limit:g} s behind. " if limit is not None else ""


def _children(names: Sequence[str]) -> str:
    return f"Views that read it: {', '.join(f'`{name}`' for name in names)}." if names else "No view reads it."
