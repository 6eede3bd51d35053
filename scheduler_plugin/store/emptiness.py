"""What has never held anything, for a refresh that reads it: a table is its columns without a row, a view its SQL then.

So a view can be refreshed before each of its tables has had a first file.
"""

from collections.abc import Mapping

from sqlalchemy import Connection, exists, select

from scheduler_plugin.store.models import Object, Version


def filled_in(
    connection: Connection, reads: Mapping[str, int | None], virtual: Mapping[str, str]
) -> tuple[Mapping[str, int | None], Mapping[str, str]]:
    """The same reads and virtual views with such objects among the virtual ones."""
    reads, virtual = dict(reads), dict(virtual)
    empty = [name for name, snapshot in reads.items() if snapshot is None]
    for name in empty:  # grows while it is read
        wanted = select(Object.spec, exists().where(Version.object == Object.name)).where(Object.name == name)
        spec, has_held = connection.execute(wanted).one()
        if has_held:
            continue  # since it was decided: the job finds it as of then, or says what is amiss
        del reads[name]
        if "sql" not in spec:
            columns = ", ".join(f"CAST(NULL AS {kind}) AS `{column}`" for column, kind in spec["columns"])
            virtual[name] = f"SELECT {columns} WHERE false"
            continue
        virtual |= {**spec["virtual"], name: spec["sql"]}
        beyond = [each for each in spec["reads"] if each not in reads and each not in virtual]
        reads |= dict.fromkeys(beyond)
        empty += beyond
    return reads, virtual
