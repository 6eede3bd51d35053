"""What Airflow shows of each object's DAG: its id, tags and a page of documentation made from the catalog."""

from dataclasses import dataclass

from scheduler_plugin.catalog import Catalog, catalog_path, load_catalog


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentedObject:
    dag_id: str
    tags: list[str]
    doc: str


def documented_objects() -> list[DocumentedObject]:
    """Every object that has jobs; a virtual view has none."""
    catalog = load_catalog(catalog_path())
    return [_table(catalog, name) for name in catalog.tables] + [
        _view(catalog, name) for name, view in catalog.views.items() if view.materialized
    ]


def _table(catalog: Catalog, name: str) -> DocumentedObject:
    table, feed = catalog.tables[name], catalog.feeds[catalog.tables[name].feed]
    columns = "\n".join(f"| `{column}` | {kind} |" for column, kind in table.columns.items())
    doc = (
        f"**Table `{name}`**, filled by feed `{feed.name}` ({feed.format}, about every {feed.period:g} s).\n\n"
        f"{_promise(table.staleness_limit)}{_children(catalog, name)}\n\n| column | type |\n| --- | --- |\n{columns}\n"
    )
    return DocumentedObject(dag_id=f"load__{name}", tags=["table"], doc=doc)


def _view(catalog: Catalog, name: str) -> DocumentedObject:
    view = catalog.views[name]
    parents = ", ".join(f"`{parent}`" for parent in view.parents)
    doc = (
        f"**View `{name}`**, derived from {parents or 'nothing'}.\n\n"
        f"{_promise(view.staleness_limit)}{_children(catalog, name)}\n\n```sql\n{view.sql.strip()}\n```\n"
    )
    return DocumentedObject(dag_id=f"refresh__{name}", tags=["view"], doc=doc)


def _promise(limit: float | None) -> str:
    return f"It should never be more than {limit:g} s behind. " if limit is not None else ""


def _children(catalog: Catalog, name: str) -> str:
    children = [f"`{child}`" for child, view in catalog.views.items() if name in view.parents]
    return f"Views that read it: {', '.join(children)}." if children else "No view reads it."
