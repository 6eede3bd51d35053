"""The demo's views: their shape as a graph, and how they treat what is odd in the source."""

from typing import Any

from scheduler_plugin.catalog import Catalog
from scheduler_plugin.demo import duck
from scheduler_plugin.demo.outside import Outside
from scheduler_plugin.demo.plan import Drop


def ask(outside: Outside, sql: str) -> list[tuple[Any, ...]]:
    return list(outside.duck.execute(sql).fetchall())


def test_there_are_ten_views_over_three_levels_and_one_is_virtual(catalog: Catalog) -> None:
    assert len(catalog.views) >= 10
    assert len(catalog.levels) >= 1 + 3
    assert [name for name, view in catalog.views.items() if not view.materialized] == ["worst_routes"]


def test_there_is_a_diamond(catalog: Catalog) -> None:
    one, other = catalog.parents("airport_board")
    assert "flights_clean" in catalog.parents(one)
    assert "flights_clean" in catalog.parents(other)


def test_every_table_is_read_by_a_view(catalog: Catalog) -> None:
    assert set(catalog.tables) <= {parent for view in catalog.views.values() for parent in view.parents}


def test_midnight_is_written_2400_and_becomes_minute_0(outside: Outside) -> None:
    assert ask(outside, "SELECT count(*) FROM flights WHERE dep_time = 2400") == [(3,)]
    both = "flights AS f JOIN flights_clean AS c USING (time_hour, carrier, flight, origin)"
    assert ask(outside, f"SELECT DISTINCT c.dep_minute FROM {both} WHERE f.dep_time = 2400") == [(0,)]
    assert ask(outside, "SELECT count(*) FROM flights_clean WHERE dep_minute NOT BETWEEN 0 AND 1439") == [(0,)]


def test_a_cancelled_flight_has_no_departure_and_no_delay(outside: Outside) -> None:
    odd = "cancelled AND (departed_at IS NOT NULL OR dep_delay IS NOT NULL OR diverted)"
    assert ask(outside, f"SELECT count(*) FROM flights_clean WHERE {odd}") == [(0,)]
    assert ask(outside, "SELECT planned, cancelled FROM network_now WHERE local_date = '2013-02-08'") == [(930, 472)]


def test_departures_are_the_plan_plus_the_delay(outside: Outside) -> None:
    wrong = "departed_at <> scheduled_at + to_minutes(dep_delay)"
    assert ask(outside, f"SELECT count(*) FROM flights_clean WHERE {wrong}") == [(0,)]
    # The local clock says the same: New York is five hours behind UTC in February.
    local = "extract(hour FROM departed_at - INTERVAL 5 HOUR) * 60 + extract(minute FROM departed_at)"
    assert ask(outside, f"SELECT count(*) FROM flights_clean WHERE dep_minute <> {local}") == [(0,)]


def test_flights_without_weather_stay_as_unknown(catalog: Catalog, week: list[Drop]) -> None:
    dry = Outside(catalog, [drop for drop in week if drop.feed == "flights"][:5])
    [(flights,)] = ask(dry, "SELECT count(*) FROM flights")
    assert ask(dry, "SELECT conditions, count(*) FROM flights_weather GROUP BY conditions") == [("unknown", flights)]
    assert ask(dry, "SELECT DISTINCT conditions, gust FROM airport_board") == [("unknown", None)]


def test_planes_nobody_registered_stay_as_unknown(catalog: Catalog, week: list[Drop]) -> None:
    dry = Outside(catalog, [drop for drop in week if drop.feed == "flights"][:5])
    assert ask(dry, "SELECT DISTINCT manufacturer, age, seats_flown FROM delays_by_plane") == [
        ("unknown", "unknown", None)
    ]


def test_no_flight_is_lost_on_the_way_up(outside: Outside) -> None:
    flights = ask(outside, "SELECT count(*) FROM flights")
    for view, column in [
        ("delays_by_carrier", "flights"),
        ("delays_by_plane", "flights"),
        ("delays_by_route", "flights"),
        ("delays_in_weather", "flights"),
        ("airport_board", "planned"),
        ("network_now", "planned"),
    ]:
        assert ask(outside, f"SELECT sum({column})::BIGINT FROM {view}") == flights, view


def test_sql_keeps_sparks_meaning_in_duckdb(outside: Outside) -> None:
    sql = duck.in_duckdb("SELECT count_if(x > 1), try_divide(1, 0), 7 DIV 2 FROM VALUES (CAST(NULL AS INT)) AS t(x)")
    assert ask(outside, sql) == [(0, None, 3)]
