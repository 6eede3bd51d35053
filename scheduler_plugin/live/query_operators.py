"""For DAGs of one's own: a query that waits for fresh enough data, and a sensor that waits for fresh objects.

from scheduler_plugin.live.query_operators import FreshnessSensor, FreshQueryOperator

fresh = FreshnessSensor(task_id="fresh", objects=["flights", "delays_by_carrier"], max_staleness=60, demand=True)
worst = FreshQueryOperator(
    task_id="worst",
    sql="SELECT carrier FROM delays_by_carrier ORDER BY mean_dep_delay DESC LIMIT 3",
    max_staleness=60,
    deadline=300,
)
fresh >> worst
"""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, ClassVar

from airflow.sdk import BaseOperator, BaseSensorOperator
from airflow.sdk.exceptions import AirflowFailException

from scheduler_plugin.services.settings import Settings


class FreshQueryOperator(BaseOperator):
    """Answers a query; the result is pushed to XCom with how fresh it is and which versions were read.

    Seconds throughout. One that cannot be answered in time fails at once, without another try.
    """

    template_fields: ClassVar[Sequence[str]] = ("sql", "as_of")
    ui_color = "#d7ecff"

    def __init__(
        self,
        *,
        sql: str,
        deadline: float | None = None,
        max_staleness: float | None = None,
        prefer: float | None = None,
        as_of: str | None = None,
        most_rows: int = 1000,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.sql = sql
        self.deadline = deadline
        self.max_staleness = max_staleness
        self.prefer = prefer
        self.as_of = as_of
        self.most_rows = most_rows

    def execute(self, context: Any) -> dict[str, Any]:
        import json

        from scheduler_plugin.catalog.confined import ConfinedError
        from scheduler_plugin.live.queries import Asked, CannotMeetError, ask

        as_of = None if self.as_of is None else datetime.fromisoformat(self.as_of)
        asked = Asked(
            sql=self.sql,
            by=f"{self.dag_id}.{self.task_id}",
            deadline=self.deadline,
            max_staleness=self.max_staleness,
            prefer=self.prefer,
            as_of=as_of.replace(tzinfo=UTC) if as_of is not None and as_of.tzinfo is None else as_of,
            most_rows=self.most_rows,
        )
        try:
            answer = ask(Settings.load(), asked)
        except (ConfinedError, CannotMeetError) as error:
            raise AirflowFailException(str(error)) from error
        self.log.info("Query %d: %d rows, as of %s", answer.query, len(answer.rows), answer.instant)
        # Decimals and times as text: XCom holds plain values.
        found: dict[str, Any] = json.loads(json.dumps(asdict(answer), default=str))
        return found


class FreshnessSensor(BaseSensorOperator):
    """Waits until objects are fresh, or were within `max_staleness` seconds.

    With `demand`, what is stale is asked for once, before everything else the scheduler would run.
    """

    template_fields: ClassVar[Sequence[str]] = ("objects",)
    ui_color = "#d7ecff"

    def __init__(
        self,
        *,
        objects: Sequence[str],
        max_staleness: float = 0.0,
        demand: bool = False,
        poke_interval: float = 1.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(poke_interval=poke_interval, **kwargs)
        self.objects = objects
        self.max_staleness = max_staleness
        self.demand = demand
        self._demanded = False

    def poke(self, context: Any) -> bool:
        from scheduler_plugin.store import demands, freshness
        from scheduler_plugin.store.database import Database

        database = Database(Settings.load().database_url)
        try:
            known = freshness.open_spells(database)
            if unknown := sorted(set(self.objects) - known.keys()):
                raise AirflowFailException(f"no object of the catalog is called {', '.join(unknown)}")
            now, since = datetime.now(UTC), freshness.stale_since(database)
            late = {name: (now - since[name]).total_seconds() for name in self.objects if name in since}
            waiting = sorted(name for name, seconds in late.items() if seconds > self.max_staleness)
            if waiting and self.demand and not self._demanded:
                by = f"{self.dag_id}.{self.task_id}"
                demands.demand_all(database, waiting, by=by, why="freshness sensor", deadline=None, run=False)
                self._demanded = True
        finally:
            database.close()
        if waiting:
            self.log.info("Stale: %s", ", ".join(f"{name} for {late[name]:.1f} s" for name in waiting))
        return not waiting
