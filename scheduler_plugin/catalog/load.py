"""Reads and checks a whole catalog: `include/warehouse.yml`, the SQL of its views, the expectations of its tables.

Files are named relative to the folder of the catalog: `views/<view>.sql` unless the view's `sql` says otherwise, and
`expectations/<table>.yml` where there is one. Nothing is believed before everything has been looked at.
"""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from scheduler_plugin.brain.policies import POLICIES
from scheduler_plugin.brain.policy import PolicyError
from scheduler_plugin.catalog import values
from scheduler_plugin.catalog.alerts import read_alerts
from scheduler_plugin.catalog.expectations import read_expectations
from scheduler_plugin.catalog.feeds import read_feed
from scheduler_plugin.catalog.graph import cycles, levels
from scheduler_plugin.catalog.groups import read_groups
from scheduler_plugin.catalog.model import DEFAULT_OWNER, Catalog, Feed, Policy, Retention, Source, Table, View
from scheduler_plugin.catalog.parents import NotASelectError, parents_of
from scheduler_plugin.catalog.problems import CatalogError, Fields, Problems, mapping, shown
from scheduler_plugin.catalog.yaml_file import read_yaml

DEFAULT = Path(__file__).resolve().parents[2] / "include" / "warehouse.yml"


def catalog_path() -> Path:
    """The catalog in use: FRESHET_CATALOG, or `include/warehouse.yml` of this checkout."""
    return Path(os.environ.get("FRESHET_CATALOG") or DEFAULT)


def load_catalog(path: Path) -> Catalog:
    """The catalog at `path`, or CatalogError with every problem."""
    return _Reader(path=path.resolve()).read()


@dataclass(slots=True, kw_only=True)
class _Reader:
    """One reading: the problems and the files met on the way."""

    path: Path
    problems: Problems = field(default_factory=Problems)
    sources: list[Source] = field(default_factory=list)
    contents: dict[Path, bytes] = field(default_factory=dict)
    #: Names whose entry could not be read: reported once, and not again wherever they are used.
    unreadable: set[Any] = field(default_factory=set)

    @property
    def here(self) -> str:
        return shown(self.path)

    def content(self, path: Path) -> bytes:
        """The file's bytes. Its time is taken before it is read, so a later change cannot go unnoticed."""
        source = Source.of(path)
        self.contents[path] = found = path.read_bytes()
        self.sources.append(source)
        return found

    def read(self) -> Catalog:
        try:
            content = self.content(self.path)
        except OSError as error:
            raise CatalogError(
                [f"{self.here}: cannot be read ({error.strerror}). Put the catalog there or set FRESHET_CATALOG."]
            ) from None
        whole = read_yaml(self.path, content, self.problems)
        if not isinstance(whole, Mapping):
            if not self.problems.found:
                self.problems.add(self.here, ": is not a mapping. Begin with `slots:`, `feeds:` and `views:`.")
            raise CatalogError(self.problems.found)

        top = Fields(self.problems, self.here, whole)
        slots = top.take("slots", values.whole)
        tick_seconds = top.take("tick_seconds", values.positive, 5.0)
        retention = self.retention(top.take("retention", mapping, {}) or {})
        policy = self.policy(top.take("policy", mapping, {}) or {})
        in_a_burst = Fields(self.problems, f"{self.here}: burst", top.take("burst", mapping, {}) or {})
        half_life = top.take("access_half_life", values.duration, 600.0)
        burst_bytes = in_a_burst.take("backlog_bytes", values.whole, None)
        in_a_burst.done()
        feeds, tables = self.feeds(top.take("feeds", mapping) or {})
        views = self.views(top.take("views", mapping, {}) or {}, tables)
        named_groups = self.entries("group", top.take("groups", mapping, {}) or {})
        groups = read_groups(self.here, named_groups, slots, {**tables, **views}, self.problems)
        alerts = read_alerts(self.entries("alert", top.take("alerts", mapping, {}) or {}))
        top.done()
        found = self.graph(tables, views)
        self.problems.raise_if_any()
        return Catalog(
            path=self.path,
            slots=slots,
            groups=MappingProxyType(groups),
            alerts=MappingProxyType(alerts),
            policy=policy,
            tick_seconds=tick_seconds,
            burst_bytes=burst_bytes,
            access_half_life=half_life,
            retention=retention,
            feeds=MappingProxyType(feeds),
            tables=MappingProxyType(tables),
            views=MappingProxyType(views),
            levels=found,
            fingerprint=self.fingerprint(),
            sources=tuple(self.sources),
        )

    def retention(self, entry: Mapping[Any, Any]) -> Retention:
        fields = Fields(self.problems, f"{self.here}: retention", entry)
        day = 86400.0
        retention = Retention(
            archive=fields.take("archive", values.duration, 365 * day),
            snapshots=fields.take("snapshots", values.duration, 1800.0),
            history=fields.take("history", values.duration, 90 * day),
            airflow=fields.take("airflow", values.duration, 30 * day),
        )
        fields.done()
        return retention

    def entries(self, kind: str, entries: Mapping[Any, Any]) -> list[tuple[str, Fields]]:
        """Each named entry with a reader for its fields; names are checked on the way."""
        found = []
        for key, entry in entries.items():
            where = f"{self.here}: {kind} {key}"
            try:
                values.name(key)
                found.append((key, Fields(self.problems, where, mapping({} if entry is None else entry))))
            except ValueError as error:
                self.problems.add(where, f": {error}")
                self.unreadable.add(key)
        return found

    def policy(self, entry: Mapping[Any, Any]) -> Policy:
        fields = Fields(self.problems, f"{self.here}: policy", entry)
        name = fields.take("name", values.name, "default")
        given = Fields(self.problems, f"{fields.where}, params", fields.take("params", mapping, {}) or {})
        fields.done()
        params = {str(key): given.take(key, values.plain, None) for key in given.values}
        if name is not None and name not in POLICIES:
            self.problems.add(fields.where, f" `{name}` does not exist.{self.problems.hint(name, POLICIES)}")
        elif name is not None:
            try:
                POLICIES[name]({key: str(value) for key, value in params.items()})
            except PolicyError as error:
                self.problems.add(fields.where, f", `params`: {error}.")
        return Policy(name=name, params=MappingProxyType(params))

    def feeds(self, entries: Mapping[Any, Any]) -> tuple[dict[str, Feed], dict[str, Table]]:
        feeds: dict[str, Feed] = {}
        tables: dict[str, Table] = {}
        if not entries:
            self.problems.add(self.here, ": has no feeds. Name at least one below `feeds:`.")
        folder = self.path.parent / "expectations"
        self.sources.append(Source.of(folder))
        files = {file.stem: file for file in sorted(folder.glob("*.yml"))}
        for name, fields in self.entries("feed", entries):
            feed, table = read_feed(name, fields)
            feeds[name] = feed
            if table.name in tables:
                other = tables[table.name].feed
                self.problems.add(fields.where, f" and feed {other} both feed `{table.name}`. Let one of them do it.")
            if file := files.pop(table.name, None):
                found = read_expectations(file, self.content(file), table.columns or None, self.problems)
                table = replace(table, expectations=found)
            tables[table.name] = table
        for stem, file in files.items():
            self.problems.add(shown(file), f": no feed feeds a table `{stem}`.{self.problems.hint(stem, tables)}")
        return feeds, tables

    def views(self, entries: Mapping[Any, Any], tables: Mapping[str, Table]) -> dict[str, View]:
        views: dict[str, View] = {}
        for name, fields in self.entries("view", entries):
            if name in tables:
                self.problems.add(fields.where, f" has the name of a table (feed {tables[name].feed}). Rename one.")
            file = fields.take("sql", values.text, f"views/{name}.sql")
            sql, parents = self.sql(name, fields, file) if file else ("", ())
            views[name] = View(
                name=name,
                sql=sql,
                parents=parents,
                materialized=fields.take("materialized", values.flag, True),
                weight=fields.take("weight", values.positive, 1.0),
                staleness_limit=fields.take("staleness_limit", values.duration, None),
                access=fields.take("access", values.not_negative, 1.0),
                owner=fields.take("owner", values.text, DEFAULT_OWNER),
                when_parent_blocked=fields.take("when_parent_blocked", values.one_of(("refresh", "hold")), "refresh"),
            )
            fields.done()
        return views

    def sql(self, view: str, fields: Fields, file: str) -> tuple[str, tuple[str, ...]]:
        path = self.path.parent / file
        try:
            sql = self.content(path).decode()
        except OSError as error:
            self.problems.add(
                fields.where,
                f", `sql`: {shown(path)} cannot be read ({error.strerror}). Write the view's SELECT there.",
            )
            return "", ()
        except UnicodeDecodeError as error:
            self.problems.add(shown(path), f": view {view} is not UTF-8 text (byte {error.start}). Save it as UTF-8.")
            return "", ()
        try:
            parents = parents_of(sql)
        except NotASelectError as error:
            self.problems.add(shown(path), f"{error.place}: view {view} {error}")
            return sql, ()
        if not parents:
            self.problems.add(
                shown(path), f": view {view} reads no table or view, so it can never be stale. Name one after FROM."
            )
        return sql, parents

    def graph(self, tables: Mapping[str, Table], views: Mapping[str, View]) -> tuple[tuple[str, ...], ...]:
        parents: dict[str, list[str]] = {name: [] for name in tables}
        for view in views.values():
            known = parents.setdefault(view.name, [])
            for parent in view.parents:
                if parent in tables or parent in views:
                    known.append(parent)
                    continue
                if parent in self.unreadable:
                    continue
                hint = self.problems.hint(parent, {**tables, **views})
                if "." in parent:
                    hint = " Name tables and views without a schema."
                self.problems.add(
                    self.here, f": view {view.name} reads `{parent}`, which no feed or view provides.{hint}"
                )
        for cycle in cycles(parents):
            ring = " -> ".join([*cycle, cycle[0]])
            self.problems.add(self.here, f": views read each other in a circle: {ring}. Take one of these reads out.")
        return levels(parents)

    def fingerprint(self) -> str:
        digest = hashlib.sha256()
        for path, content in sorted(self.contents.items()):
            digest.update(f"{os.path.relpath(path, self.path.parent)}\0{len(content)}\0".encode())
            digest.update(content)
        return digest.hexdigest()
