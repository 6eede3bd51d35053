"""Known rows: files that land all the time, and what the tables and views must hold because of them."""

import threading
import time
from pathlib import Path
from typing import Any

ROWS = 200
CITIES = 20
CATALOG = """
slots: 2
tick_seconds: 1
policy: {name: default}
feeds:
  trips:
    format: csv
    period: 2s
    weight: 2
    columns: {id: long, city: long, fare: long}
  cities:
    format: csv
    period: 10s
    columns: {city: long, version: long}
views:
  fares: {access: 6, staleness_limit: 1m}
  known: {access: 3}
  best: {access: 2}
"""
VIEWS = {
    "fares": "SELECT city, count(*) AS trips, sum(fare) AS fares FROM trips GROUP BY city",
    "known": "SELECT city, max(version) AS version FROM cities GROUP BY city",
    "best": "SELECT f.city, f.fares, k.version FROM fares f JOIN known k ON f.city = k.city WHERE f.trips > 1",
}


def write_catalog(folder: Path) -> Path:
    (folder / "views").mkdir(parents=True, exist_ok=True)
    for name, sql in VIEWS.items():
        (folder / "views" / f"{name}.sql").write_text(f"{sql}\n")
    path = folder / "warehouse.yml"
    path.write_text(CATALOG)
    return path


class Pour:
    """Writes files until it is stopped, and knows every row."""

    def __init__(self, landing: Path, seconds_between: float = 1.0) -> None:
        self._landing = landing
        self._between = seconds_between
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.files = {"trips": 0, "cities": 0}

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        number = 0
        while True:
            self.write("trips", number)
            if number % 5 == 0:
                self.write("cities", number // 5)
            number += 1
            if self._stop.wait(self._between):
                return

    def write(self, feed: str, number: int) -> None:
        if feed == "trips":
            rows = [(number * ROWS + each, each % CITIES, (number * 7 + each) % 50) for each in range(ROWS)]
            header = "id,city,fare"
        else:
            rows = [(city, number) for city in range(CITIES)]
            header = "city,version"
        folder = self._landing / feed
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{feed}_{number}_{time.time_ns()}.csv"
        draft = folder / f".{file.name}"
        draft.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows), ""]))
        draft.rename(file)
        self.files[feed] += 1

    def differences(self, places: dict[str, str]) -> list[str]:
        """What DuckDB finds in the Iceberg tables that the files do not explain. `places`: object -> metadata file."""
        from scheduler_plugin.demo.duck import connect, scan

        duck: Any = connect()
        known = {
            "trips": f"SELECT n * {ROWS} + e AS id, e % {CITIES} AS city, (n * 7 + e) % 50 AS fare "
            f"FROM range({self.files['trips']}) a(n), range({ROWS}) b(e)",
            "cities": f"SELECT e AS city, n AS version FROM range({self.files['cities']}) a(n), range({CITIES}) b(e)",
        }
        for name, sql in {**known, **VIEWS}.items():
            duck.execute(f"CREATE VIEW {name} AS {sql}")
        found = []
        for name in (*known, *VIEWS):
            there = f"SELECT * FROM {scan(places[name])}" if name in places else f"SELECT * FROM {name} LIMIT 0"
            for words, one, other in (("are missing from", name, there), ("should not be in", there, name)):
                first = one if one == name else f"({one})"
                second = other if other == name else f"({other})"
                count = duck.execute(
                    f"SELECT count(*) FROM (SELECT * FROM {first} EXCEPT ALL SELECT * FROM {second})"
                ).fetchone()[0]
                if count:
                    found.append(f"{count} row(s) {words} {name}")
        duck.close()
        return found
