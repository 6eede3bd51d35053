"""Every complaint of the catalog, word for word: each names the file, the object, the field, the way out."""

from collections.abc import Callable
from operator import setitem
from pathlib import Path
from typing import Any

import pytest

from scheduler_plugin.catalog import CatalogError, load_catalog

HERE = "include/warehouse.yml"

#: What is put where in the small catalog, and the one complaint that answers it.
FIELDS = [
    (("slots",), "many", f"{HERE}, `slots`: `many` is not a whole number of at least 1."),
    (("slots",), True, f"{HERE}, `slots`: `true` is not a whole number of at least 1."),
    (("slots",), None, f"{HERE} has no `slots`, which is required."),
    (("slot",), 3, f"{HERE} has an unknown field `slot`. Did you mean `slots`?"),
    (("tick_seconds",), 0, f"{HERE}, `tick_seconds`: `0` is not a number above 0."),
    (("tick_seconds",), float("nan"), f"{HERE}, `tick_seconds`: `nan` is not a number above 0."),
    (("policy",), "fifo", f"{HERE}, `policy`: `fifo` is not a mapping. Write `name: value` lines below it."),
    (("policy",), {"nam": "x"}, f"{HERE}: policy has an unknown field `nam`. Did you mean `name`?"),
    (
        ("feeds", "Flights!"),
        {},
        f"{HERE}: feed Flights!: `Flights!` is not a plain name. Use lower-case letters, digits and _, a letter first.",
    ),
    (
        ("feeds", False),
        {},
        f"{HERE}: feed False: `false` is not a plain name. Use lower-case letters, digits and _, a letter first. "
        "YAML reads unquoted yes, no, on and off as booleans.",
    ),
    (("feeds", "flights", "perod"), "5m", f"{HERE}: feed flights has an unknown field `perod`. Did you mean `period`?"),
    (
        ("feeds", "flights", "period"),
        "5x",
        f"{HERE}: feed flights, `period`: `5x` is not a duration. Write a number and a unit: 500ms, 90s, 5m, 1h or 2d.",
    ),
    (
        ("feeds", "flights", "staleness_limit"),
        90,
        f"{HERE}: feed flights, `staleness_limit`: `90` is not a duration. "
        "Write a number and a unit: 500ms, 90s, 5m, 1h or 2d.",
    ),
    (("feeds", "flights", "period"), None, f"{HERE}: feed flights has no `period`, which is required."),
    (
        ("feeds", "flights", "format"),
        "xml",
        f"{HERE}: feed flights, `format`: `xml` is not known. Use one of csv, json, parquet.",
    ),
    (
        ("feeds", "flights", "table"),
        "Flights",
        f"{HERE}: feed flights, `table`: `Flights` is not a plain name. "
        "Use lower-case letters, digits and _, a letter first.",
    ),
    (
        ("feeds", "flights", "landing"),
        ["a"],
        f"{HERE}: feed flights, `landing`: a list is not text. Put it in quotes if it should be.",
    ),
    (("feeds", "flights", "weight"), -1, f"{HERE}: feed flights, `weight`: `-1` is not a number above 0."),
    (("feeds", "flights", "access"), "often", f"{HERE}: feed flights, `access`: `often` is not a number above 0."),
    (
        ("feeds", "flights", "columns", "delay"),
        "bigint",
        f"{HERE}: feed flights, column delay: type `bigint` does not exist here. Did you mean `long`?",
    ),
    (
        ("feeds", "flights", "columns", "delay"),
        "strng",
        f"{HERE}: feed flights, column delay: type `strng` does not exist. Did you mean `string`?",
    ),
    (
        ("feeds", "flights", "columns", "delay"),
        "decimal(40,2)",
        f"{HERE}: feed flights, column delay: `decimal(40,2)` does not exist: "
        "decimal(p,s) needs 1 <= p <= 38 and s <= p.",
    ),
    (
        ("feeds", "flights", "columns", "dep time"),
        "int",
        f"{HERE}: feed flights, column dep time: `dep time` is not a column name. "
        "Use letters, digits and _, a letter first.",
    ),
    (
        ("feeds", "flights", "columns", "Delay"),
        "int",
        f"{HERE}: feed flights, column Delay: differs from `delay` only in case, which Spark ignores. Rename one.",
    ),
    (
        ("feeds", "flights", "columns"),
        {},
        f"{HERE}: feed flights, `columns`: is empty. Name the columns and their types.",
    ),
    (
        ("feeds", "flights", "key"),
        ["carier"],
        f"{HERE}: feed flights, `key`: the table has no column `carier`. Did you mean `carrier`?",
    ),
    (
        ("feeds", "flights", "key"),
        ["delay", "delay"],
        f"{HERE}: feed flights, `key`: `delay` is listed twice. Keep one.",
    ),
    (
        ("feeds", "flights", "key"),
        "delay",
        f"{HERE}: feed flights, `key`: `delay` is not a list of names. Write it like [one, other].",
    ),
    (
        ("feeds", "flights", "interval"),
        {"column": "time_hours"},
        f"{HERE}: feed flights, interval, `column`: the table has no column `time_hours`. Did you mean `time_hour`?",
    ),
    (
        ("feeds", "flights", "interval"),
        {"column": "delay"},
        f"{HERE}: feed flights, interval, `column`: `delay` is a int. "
        "Name a column of type date, timestamp, timestamp_ntz.",
    ),
    (
        ("feeds", "flights", "interval"),
        {"length": "1h"},
        f"{HERE}: feed flights, interval needs either `column` or `pattern`. Write one.",
    ),
    (
        ("feeds", "flights", "interval"),
        {"pattern": "flights_(.*)"},
        f"{HERE}: feed flights, interval, `pattern`: `flights_(.*)` has no group `start`. "
        "Write (?P<start>...) where the covered time begins.",
    ),
    (
        ("feeds", "flights", "interval"),
        {"pattern": "flights_("},
        f"{HERE}: feed flights, interval, `pattern`: `flights_(` is not a regular expression: "
        "missing ), unterminated subpattern at position 8.",
    ),
    (
        ("feeds", "flights", "interval"),
        {"pattern": "(?P<start>.*)", "format": "YYYY"},
        f"{HERE}: feed flights, interval, `format`: `YYYY` is not a format of a time. "
        "Write one for strptime, like %Y%m%dT%H%M%SZ.",
    ),
    (("views", "by_hour", "acess"), 1, f"{HERE}: view by_hour has an unknown field `acess`. Did you mean `access`?"),
    (
        ("views", "by_hour", "materialized"),
        "maybe",
        f"{HERE}: view by_hour, `materialized`: `maybe` is neither true nor false.",
    ),
    (("views", "by_hour"), 7, f"{HERE}: view by_hour: `7` is not a mapping. Write `name: value` lines below it."),
    (
        ("views", "by_hour", "sql"),
        "views/by_our.sql",
        f"{HERE}: view by_hour, `sql`: include/views/by_our.sql cannot be read (No such file or directory). "
        "Write the view's SELECT there.",
    ),
    (
        ("views", "weather"),
        {"sql": "views/by_carrier.sql"},
        f"{HERE}: view weather has the name of a table (feed weather). Rename one.",
    ),
    (
        ("groups",),
        {"fast": {"slots": 1, "objects": ["flight"]}},
        f"{HERE}: group fast, `objects`: no feed or view provides `flight`. Did you mean `flights`?",
    ),
    (
        ("groups",),
        {"a": {"slots": 3, "objects": ["flights"]}, "b": {"share": 0.5, "objects": ["weather"]}},
        f"{HERE}: groups take 5 slots (a 3 + b 2) of 4. Raise `slots` or shrink a group.",
    ),
    (
        ("groups",),
        {"a": {"slots": 4, "objects": ["flights", "weather", "by_hour"]}},
        f"{HERE}: groups take all 4 slots (a 4) and leave none for `board` and 1 more. "
        "Raise `slots`, or put every object in a group.",
    ),
    (
        ("groups",),
        {"a": {"share": 0.1, "objects": ["flights"]}},
        f"{HERE}: group a, `share`: 0.1 of 4 slots is less than one. Raise it.",
    ),
    (
        ("groups",),
        {"a": {"share": 1.5, "objects": ["flights"]}},
        f"{HERE}: group a, `share`: `1.5` is not a share. Write a number above 0 and up to 1, such as 0.25.",
    ),
    (
        ("groups",),
        {"a": {"slots": 1, "share": 0.25, "objects": ["flights"]}},
        f"{HERE}: group a needs either `slots` (a number) or `share` (of all slots). Write one.",
    ),
    (
        ("groups",),
        {"a": {"slots": 1, "objects": ["flights"]}, "b": {"slots": 1, "objects": ["flights"]}},
        f"{HERE}: group b and group a both hold `flights`. Keep it in one.",
    ),
]


@pytest.mark.parametrize(("where", "value", "complaint"), FIELDS, ids=lambda part: str(part)[:60])
def test_a_wrong_field_gets_its_own_complaint_and_no_other(
    complaints: Callable[..., tuple[str, ...]], where: tuple[Any, ...], value: Any, complaint: str
) -> None:
    def change(content: dict[str, Any]) -> None:
        for step in where[:-1]:
            content = content[step]
        content[where[-1]] = value

    found = complaints(change)
    assert found == (complaint,)


#: SQL of by_carrier, and the one complaint that answers it.
STATEMENTS = [
    (
        "SELECT * FROM flight",
        f"{HERE}: view by_carrier reads `flight`, which no feed or view provides. Did you mean `flights`?",
    ),
    (
        "SELECT * FROM elsewhere.flights",
        f"{HERE}: view by_carrier reads `elsewhere.flights`, which no feed or view provides. "
        "Name tables and views without a schema.",
    ),
    (
        "SELECT *\nFROM flights WHERE (",
        "include/views/by_carrier.sql:2:20: view by_carrier does not parse near `(`: "
        "Required keyword: 'this' missing for Paren.",
    ),
    (
        "SELECT *\nFROM flights WHERE carrier = 'UA",
        "include/views/by_carrier.sql:2:38: view by_carrier does not parse: a closing ' is missing.",
    ),
    (
        "SELECT 1 FROM flights /* so",
        "include/views/by_carrier.sql: view by_carrier does not parse: a comment or a quote is not closed.",
    ),
    ("-- to do", "include/views/by_carrier.sql: view by_carrier holds no statement. A view is a single SELECT."),
    (
        "SELECT * FROM flights; SELECT * FROM weather",
        "include/views/by_carrier.sql: view by_carrier holds 2 statements. A view is a single SELECT.",
    ),
    (
        "DROP TABLE flights",
        "include/views/by_carrier.sql: view by_carrier is a statement of kind DROP. A view is a single SELECT.",
    ),
    (
        "SELECT 1 AS one",
        "include/views/by_carrier.sql: view by_carrier reads no table or view, so it can never be stale. "
        "Name one after FROM.",
    ),
    (
        "SELECT * FROM flights, IDENTIFIER('weather')",
        "include/views/by_carrier.sql: view by_carrier reads a table by a computed name, `IDENTIFIER('weather')`. "
        "Write the name.",
    ),
    (
        "SELECT * FROM board",
        f"{HERE}: views read each other in a circle: board -> by_carrier -> board. Take one of these reads out.",
    ),
    (
        "SELECT * FROM by_carrier",
        f"{HERE}: views read each other in a circle: by_carrier -> by_carrier. Take one of these reads out.",
    ),
]


@pytest.mark.parametrize(("sql", "complaint"), STATEMENTS, ids=lambda part: part[:60])
def test_sql_that_cannot_be_a_view_gets_its_own_complaint_and_no_other(
    complaints: Callable[..., tuple[str, ...]], sql: str, complaint: str
) -> None:
    assert complaints(files={"views/by_carrier.sql": sql}) == (complaint,)


#: An expectations file of flights, and the one complaint that answers it.
EXPECTATIONS = [
    (
        "- {expect: expect_column_max_to_be_between, column: time_hour, min_value: 2013-01-01, on_fail: warn}",
        "expectation 1, `min_value`: `2013-01-01` is not plain text, a number, or a list of these. Put it in quotes.",
    ),
    (
        "- {expect: expect_column_values_to_not_be_nul, column: delay, on_fail: drop}",
        "expectation 1, `expect`: `expect_column_values_to_not_be_nul` does not exist. "
        "Did you mean `expect_column_values_to_not_be_null`?",
    ),
    (
        "- {expect: expect_column_values_to_not_be_null, column: dely, on_fail: drop}",
        "expectation 1, `column`: the table has no column `dely`. Did you mean `delay`?",
    ),
    (
        "- {expect: expect_compound_columns_to_be_unique, column_list: [carrier, tim_hour], on_fail: block}",
        "expectation 1, `column_list`: the table has no column `tim_hour`. Did you mean `time_hour`?",
    ),
    (
        "- {expect: expect_column_values_to_not_be_null, column: delay, on_fail: ignore}",
        "expectation 1, `on_fail`: `ignore` is not known. Use one of block, drop, warn.",
    ),
    (
        "- {expect: expect_column_values_to_not_be_null, column: delay}",
        "expectation 1 has no `on_fail`, which is required.",
    ),
    (
        "- {expect: expect_table_row_count_to_be_between, min_value: 1, on_fail: drop}",
        "expectation 1, `on_fail`: `expect_table_row_count_to_be_between` judges the batch as a whole "
        "and names no rows. Use block or warn.",
    ),
]


@pytest.mark.parametrize(("text", "complaint"), EXPECTATIONS, ids=lambda part: part[:70])
def test_a_wrong_expectation_gets_its_own_complaint_and_no_other(
    complaints: Callable[..., tuple[str, ...]], text: str, complaint: str
) -> None:
    assert complaints(files={"expectations/flights.yml": text}) == (f"include/expectations/flights.yml: {complaint}",)


def test_expectations_that_are_no_list_are_reported(complaints: Callable[..., tuple[str, ...]]) -> None:
    assert complaints(files={"expectations/flights.yml": "expect: x"}) == (
        "include/expectations/flights.yml: a mapping is not a list. Begin each expectation with `- expect: ...`.",
    )


def test_expectations_of_a_table_that_does_not_exist_are_reported(complaints: Callable[..., tuple[str, ...]]) -> None:
    assert complaints(files={"expectations/flight.yml": "[]"}) == (
        "include/expectations/flight.yml: no feed feeds a table `flight`. Did you mean `flights`?",
    )


def test_two_feeds_of_one_table_are_reported(complaints: Callable[..., tuple[str, ...]]) -> None:
    def change(content: dict[str, Any]) -> None:
        content["feeds"]["more_flights"] = {**content["feeds"]["flights"], "table": "flights"}

    assert complaints(change) == (
        f"{HERE}: feed more_flights and feed flights both feed `flights`. Let one of them do it.",
    )


def test_a_key_that_stands_twice_is_reported_with_both_lines(catalog_file: Callable[..., Path]) -> None:
    path = catalog_file("slots: 1\nfeeds:\n  a: {format: csv, columns: {x: int}, period: 1h}\nslots: 2\n")
    with pytest.raises(CatalogError) as caught:
        load_catalog(path)
    assert str(caught.value) == f"{HERE}:4: `slots` stands twice (first in line 1). Keep one or rename one."


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("slots: [1", f"{HERE}:2:1: is not YAML: did not find expected ',' or ']'."),
        ("just words", f"{HERE}: is not a mapping. Begin with `slots:`, `feeds:` and `views:`."),
        ("", f"{HERE}: is not a mapping. Begin with `slots:`, `feeds:` and `views:`."),
        ("slots: 1\nfeeds: {}", f"{HERE}: has no feeds. Name at least one below `feeds:`."),
    ],
)
def test_a_file_that_is_no_catalog_is_reported(catalog_file: Callable[..., Path], text: str, complaint: str) -> None:
    path = catalog_file(text + "\n")
    with pytest.raises(CatalogError) as caught:
        load_catalog(path)
    assert caught.value.problems == (complaint,)


def test_a_catalog_that_is_not_there_is_reported() -> None:
    with pytest.raises(CatalogError, match=r"^/nowhere/warehouse.yml: cannot be read \(No such file or directory\)"):
        load_catalog(Path("/nowhere/warehouse.yml"))


def test_sql_that_is_not_utf8_is_reported(bent: Callable[..., Any], catalog_file: Callable[..., Path]) -> None:
    path = bent().path
    (path.parent / "views" / "by_hour.sql").write_bytes(b"SELECT '\xff' FROM flights")
    with pytest.raises(CatalogError) as caught:
        load_catalog(path)
    assert caught.value.problems == (
        "include/views/by_hour.sql: view by_hour is not UTF-8 text (byte 8). Save it as UTF-8.",
    )


def test_a_policy_that_does_not_exist_is_reported(complaints: Callable[..., tuple[str, ...]]) -> None:
    found = complaints(lambda content: setitem(content, "policy", {"name": "qodaa"}), policies=["default", "qoda"])
    assert found == (f"{HERE}: policy `qodaa` does not exist. Did you mean `qoda`?",)


def test_all_problems_are_reported_together(complaints: Callable[..., tuple[str, ...]]) -> None:
    def change(content: dict[str, Any]) -> None:
        content["slots"] = 0
        content["feeds"]["flights"]["period"] = "soon"
        content["views"]["by_hour"]["weigth"] = 2

    found = complaints(
        change,
        files={"views/by_carrier.sql": "SELECT * FROM board", "views/board.sql": "SELECT * FROM by_carrier, nothing"},
    )
    assert len(found) == 5
    assert str(CatalogError(found)).startswith("The catalog has 5 problems:\n  include/warehouse.yml, `slots`")
