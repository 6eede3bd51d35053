"""Reads `include/expectations/<table>.yml`: what rows of a table must be like, and what happens to those that are not.

- expect: expect_column_values_to_not_be_null   # any of great-expectations' own, by name
  column: time_hour                             # and its arguments
  on_fail: drop                                 # block the batch | drop the rows | warn

and two of our own: `sql`, whose `query` selects what must not be there, and `freshness`, by a column's newest value.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any

from scheduler_plugin.catalog import values
from scheduler_plugin.catalog.model import Expectation
from scheduler_plugin.catalog.problems import Fields, Problems, kind, shown
from scheduler_plugin.catalog.yaml_file import read_yaml

ON_FAIL = ("block", "drop", "warn")
#: Only these look at rows one by one, so only these can tell which rows to drop.
BY_ROW = (
    "expect_column_values_",
    "expect_column_pair_values_",
    "expect_select_column_values_",
    "expect_compound_columns_",
    "expect_multicolumn_",
)
#: Ours, and the arguments each must have.
OWN: dict[str, dict[str, Callable[[Any], Any]]] = {
    "sql": {"query": values.text},
    "freshness": {"column": values.text, "max_age": values.duration},
}
#: Arguments that name columns of the table.
COLUMN_ARGUMENTS = ("column", "column_A", "column_B", "column_list")


@cache
def known_expectations() -> tuple[str, ...]:
    """The names great-expectations ships, from its file names: importing it takes seconds."""
    spec = find_spec("great_expectations")
    places = (spec.submodule_search_locations if spec else None) or []
    return tuple(
        sorted(file.stem for place in places for file in Path(place, "expectations", "core").glob("expect_*.py"))
    )


def read_expectations(
    path: Path, content: bytes, columns: Mapping[str, str] | None, problems: Problems
) -> tuple[Expectation, ...]:
    """The file's expectations; `columns` is None when they are wrong themselves and not worth checking against."""
    lines = read_yaml(path, content, problems)
    if lines is None:
        return ()
    if not isinstance(lines, list):
        problems.add(shown(path), f": {kind(lines)} is not a list. Begin each expectation with `- expect: ...`.")
        return ()
    return tuple(_expectation(path, number, line, columns, problems) for number, line in enumerate(lines, start=1))


def _expectation(
    path: Path, number: int, line: Any, columns: Mapping[str, str] | None, problems: Problems
) -> Expectation:
    where = f"{shown(path)}: expectation {number}"
    if not isinstance(line, Mapping):
        problems.add(where, f" is {kind(line)}, not a mapping. Write `expect: ...` and its arguments.")
        line = {"expect": None, "on_fail": "warn"}
    fields = Fields(problems, where, line)

    def known(value: Any) -> str:
        if value not in known_expectations() and value not in OWN:
            hint = problems.hint(value, (*OWN, *known_expectations()), "great-expectations lists them in its gallery.")
            raise ValueError(f"{kind(value)} does not exist.{hint}")
        return str(value)

    expect = fields.take("expect", known)
    on_fail = fields.take("on_fail", values.one_of(ON_FAIL))
    if expect and on_fail == "drop" and not expect.startswith(BY_ROW) and expect != "sql":
        problems.add(
            where,
            f", `on_fail`: `{expect}` judges the batch as a whole and names no rows. Use block or warn.",
        )
    ours = OWN.get(expect or "", {})
    arguments = {key: fields.take(key, parse) for key, parse in ours.items()}
    if not ours:
        arguments = {str(key): fields.take(key, values.plain, None) for key in line if key not in ("expect", "on_fail")}
    if expect == "sql" and arguments["query"] and "{batch}" not in arguments["query"]:
        problems.add(where, ", `query`: does not read {batch}. Write it where the new rows are to be read.")
    for key in COLUMN_ARGUMENTS:
        named = arguments.get(key, [])
        for column in named if isinstance(named, Sequence) and not isinstance(named, str) else [named]:
            if columns is not None and not (isinstance(column, str) and column in columns):
                problems.add(
                    where, f", `{key}`: the table has no column {kind(column)}.{problems.hint(column, columns)}"
                )
    return Expectation(expect=expect or "", on_fail=on_fail, arguments=MappingProxyType(arguments))
