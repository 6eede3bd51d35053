"""The operator and the sensor for DAGs: on a real ledger, and in a DAG as an author would write it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from scheduler_plugin.store import demands, freshness, lease, objects
from scheduler_plugin.store.database import Database
from tests.store.conftest import TABLE, VIEW


def test_a_dag_may_use_them() -> None:
    from airflow.sdk import DAG

    from scheduler_plugin.live.query_operators import FreshnessSensor, FreshQueryOperator

    with DAG("report", schedule=None) as dag:
        fresh = FreshnessSensor(task_id="fresh", objects=["flights"], max_staleness=60, demand=True)
        ask = FreshQueryOperator(task_id="ask", sql="SELECT * FROM flights", deadline=30, as_of="{{ ds }}")
        fresh >> ask
    assert dag.task_dict.keys() == {"fresh", "ask"}
    assert "sql" in FreshQueryOperator.template_fields


@pytest.mark.services
def test_the_sensor_waits_for_freshness_and_demands_it_once(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    from scheduler_plugin.live.query_operators import FreshnessSensor

    monkeypatch.setenv("FRESHET_DATABASE_URL", database.url)
    objects.take_in(database, objects.CatalogRow(settings={"slots": 1}, objects=[TABLE, VIEW]))
    epoch = lease.take(database, "the test's loop", timedelta(hours=1))
    assert epoch is not None

    def note(fresh: bool, at: datetime) -> None:
        change = freshness.Change(object="v", at=at, fresh=fresh, current_to=at)
        freshness.note(database, epoch, [change], event_seen=0, last_tick={})

    def sensor(**how: Any) -> FreshnessSensor:
        return FreshnessSensor(task_id="s", objects=["v"], **how)

    now = datetime.now(UTC)
    note(True, now - timedelta(minutes=9))
    assert sensor().poke({})
    note(False, now - timedelta(minutes=5))
    assert sensor(max_staleness=600).poke({})
    asking = sensor(demand=True)
    assert not asking.poke({})
    assert not asking.poke({})
    assert [each.object for each in demands.reports(database)] == ["v"]
    note(True, now)
    assert asking.poke({})
    with pytest.raises(AirflowFailException, match="nowhere"):
        FreshnessSensor(task_id="s", objects=["nowhere"]).poke({})
