"""The dependency graph around one object, never more of it than a screen holds."""

from scheduler_plugin.web import models
from scheduler_plugin.web.desk import Snapshot

#: How many objects a graph shows before it leaves neighbours out.
MOST_NODES = 60


def neighbourhood(snapshot: Snapshot, seen: frozenset[str], centre: str, up: int, down: int) -> models.Neighbourhood:
    """Breadth first from the centre, up through parents and down through children, until the screen is full."""
    shown = {centre: None}
    for steps, neighbours in ((up, lambda each: snapshot.by_name[each].parents), (down, snapshot.children.get)):
        edge = [centre]
        for _ in range(steps):
            edge = list(dict.fromkeys(near for each in edge for near in neighbours(each) or () if near in seen))
            room = MOST_NODES - len(shown)
            shown |= dict.fromkeys([each for each in edge if each not in shown][:room])
            edge = [each for each in edge if each in shown]
    rows = {row.name: row for row in snapshot.rows if row.name in shown}
    nodes = []
    for name in shown:
        row = rows[name]
        around = {*snapshot.by_name[name].parents, *snapshot.children.get(name, ())}
        nodes.append(
            models.Node(
                name=row.name,
                kind=row.kind,
                virtual=row.virtual,
                level=row.level,
                fresh=row.fresh,
                running=row.running,
                current_to=row.current_to,
                limit=row.limit,
                pending=row.pending,
                dirty=row.dirty,
                cost=row.cost,
                held=bool(row.held),
                hidden=len(around & seen) - len(around & shown.keys()),
            )
        )
    edges = [(parent, name) for name in shown for parent in snapshot.by_name[name].parents if parent in shown]
    return models.Neighbourhood(centre=centre, nodes=nodes, edges=edges)
