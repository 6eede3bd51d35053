"""Files as they come: what cannot be loaded is in quarantine with a reason a person understands, the rest is loaded."""

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs import load
from spark_jobs.load import LoadResult, SourceFile, load_batch
from spark_jobs.query import run_query

pytestmark = pytest.mark.services

COLUMNS = [("id", "long"), ("who", "string"), ("amount", "decimal(6,2)"), ("at", "timestamp"), ("day", "date")]
HEADER = "id,who,amount,at,day\n"
GOOD = "1,ann,1.50,2024-01-01 10:00:00,2024-01-01\n"


class Loading:
    """Loads files into one table and reads it back."""

    def __init__(self, spark: Any, tables: Any, name: str, folder: Path) -> None:
        self._spark, self._tables, self._name, self._folder = spark, tables, name, folder
        self._batches = 0

    def write(self, name: str, content: str | bytes) -> Path:
        path = self._folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def load(
        self,
        *paths: Path,
        columns: Sequence[tuple[str, str]] = COLUMNS,
        format: str = "csv",
        sizes: Mapping[Path, int] | None = None,
        **more: Any,
    ) -> LoadResult:
        self._batches += 1
        files = [
            SourceFile(update_id=number, path=str(path), size=(sizes or {}).get(path))
            for number, path in enumerate(paths)
        ]
        return load_batch(
            spark=self._spark,
            tables=self._tables,
            table=self._name,
            columns=columns,
            format=format,
            files=files,
            marker=f"batch-{self._batches}",
            **more,
        )

    def rows(self, sql: str = "SELECT * FROM {} ORDER BY 1") -> list[dict[str, Any]]:
        reads = {self._name: self._tables.current(self._name)}
        found: list[dict[str, Any]] = run_query(
            self._spark, self._tables, sql.format(self._name), reads, {}
        ).to_pylist()
        return found


@pytest.fixture
def loading(spark_connect: Any, tables: Any, name: str, tmp_path: Path) -> Loading:
    return Loading(spark_connect, tables, name, tmp_path)


def as_parquet(**columns: pa.Array) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    return bytes(sink.getvalue())


WHOLE = {
    "id": pa.array([1]),
    "who": pa.array(["ann"]),
    "amount": pa.array(["1.50"]).cast(pa.decimal128(6, 2)),
    "at": pa.array([0], pa.timestamp("us", "UTC")),
    "day": pa.array([0], pa.date32()),
}

#: File name, content, and what its reason must say.
UNFIT: list[tuple[str, str | bytes, str]] = [
    ("empty.csv", "", "is empty (0 bytes)"),
    ("renamed.csv", "id,name,amount,at,day\n" + GOOD, "has column `name` where column `who` was expected"),
    ("missing.csv", "id,who,amount,at\n1,ann,1.50,2024-01-01\n", "lacks column `day`"),
    ("extra.csv", HEADER.replace("day", "day,colour") + GOOD, "has column `colour`, which the table does not declare"),
    (
        "semicolons.csv",
        (HEADER + GOOD).replace(",", ";"),
        "is separated by ';', not by commas: id;who;amount",
    ),
    ("no_header.csv", GOOD, "where columns `id`, `who`, `amount`, `at`, `day` was expected"),
    ("twice.csv", "id,who,amount,at,day,id\n1,a,1,2024-01-01,2024-01-01,1\n", "twice"),
    ("utf16.csv", (HEADER + GOOD).encode("utf-16"), "it looks like UTF-16"),
    ("latin1.csv", (HEADER + GOOD.replace("ann", "Zoë")).encode("latin-1"), "is not UTF-8 near byte 25"),
    ("cut_short.csv.gz", gzip.compress((HEADER + GOOD * 1000).encode())[:-20], "cannot be read"),
    ("all_bad.csv", HEADER + "x,ann,1,2024-01-01,2024-01-01\n", "1 of 1 rows are malformed; first: column `id`: 'x'"),
    ("_hidden.csv", HEADER + GOOD, "its name begins with _"),
    ("zero.parquet", b"", "is empty (0 bytes)"),
    ("truncated.parquet", as_parquet(**WHOLE)[:-30], "is not a whole Parquet file"),
    ("text.parquet", HEADER + GOOD, "is not a whole Parquet file"),
    (
        "nanoseconds.parquet",
        as_parquet(**{**WHOLE, "at": pa.array([1], pa.timestamp("ns", "UTC"))}),
        "holds nanoseconds",
    ),
    (
        "type.parquet",
        as_parquet(**{**WHOLE, "id": pa.array(["one"])}),
        "1 of 1 rows are malformed; first: column `id`: one does not fit bigint",
    ),
    (
        "nested.parquet",
        as_parquet(**{**WHOLE, "who": pa.array([["a"]])}),
        "column `who` has type list<element: string>, where one value was expected",
    ),
]


@pytest.mark.parametrize(("file", "content", "reason"), UNFIT, ids=[each[0] for each in UNFIT])
def test_an_unfit_file_goes_to_quarantine_and_the_others_are_loaded(
    loading: Loading, file: str, content: str | bytes, reason: str
) -> None:
    format = "parquet" if file.endswith("parquet") else "csv"
    good = loading.write("good." + format, as_parquet(**WHOLE) if format == "parquet" else HEADER + GOOD)
    result = loading.load(good, loading.write(file, content), format=format)
    assert result.rows_by_update == {0: 1, 1: 0}
    ((update, words),) = result.quarantined_files
    assert update == 1
    assert file in words
    assert reason in words
    assert [row["who"] for row in loading.rows()] == ["ann"]


#: A row of CSV or JSON that is not right, and what its reason must say.
BAD_ROWS: list[tuple[str, str, str]] = [
    ("csv", "2,bob,1.5,2024-01-01", "4 fields where 5 were expected"),
    ("csv", "2,bob,1.5,2024-01-01,2024-01-01,6", "6 fields where 5 were expected"),
    ("csv", "two,bob,1.5,2024-01-01,2024-01-01", "column `id`: 'two' is not bigint"),
    ("csv", "99999999999999999999,bob,1.5,2024-01-01,2024-01-01", "column `id`"),
    ("csv", "2.5,bob,1.5,2024-01-01,2024-01-01", "column `id`: '2.5' is not bigint"),
    ("csv", "2,bob,1.555,2024-01-01,2024-01-01", "does not fit decimal(6,2) unchanged"),
    ("csv", "2,bob,99999.5,2024-01-01,2024-01-01", "column `amount`: '99999.5' is not decimal(6,2)"),
    ("csv", "2,bob,1.5,yesterday,2024-01-01", "column `at`: 'yesterday' is not timestamp"),
    ("csv", "2,bob,1.5,2024-01-01,2024-02-30", "column `day`: '2024-02-30' is not date"),
    ("csv", '2,"bob,1.5,2024-01-01,2024-01-01', "fields where 5 were expected"),
    ("csv", "2,bob,1.5,2024-01-01,+12024-01-01", "column `day`: year 12024 is not from 1 to 9999"),
    ("csv", "2,bob,1.5,0000-01-01,2024-01-01", "column `at`: year 0 is not from 1 to 9999"),
    ("json", '{"id": 2, "who": "bob"', "not JSON"),
    ("json", "[1, 2]", "not a JSON object"),
    ("json", '{"id": "two"}', "column `id`: 'two' is not bigint"),
    ("json", '{"id": {"a": 1}}', "column `id`"),
    ("json", '{"id": 2, "colour": "red"}', "column `colour` is not declared"),
    ("json", '{"id": 2, "day": "2024-02-30"}', "column `day`: '2024-02-30' is not date"),
    ("json", '{"id": 2, "amount": 1.555}', "does not fit decimal(6,2) unchanged"),
]


@pytest.mark.parametrize(("format", "line", "reason"), BAD_ROWS)
def test_a_bad_row_goes_to_quarantine_with_its_number_and_the_rest_of_its_file_is_loaded(
    loading: Loading, format: str, line: str, reason: str
) -> None:
    good = GOOD if format == "csv" else json.dumps({"id": 1, "who": "ann"}) + "\n"
    content = (HEADER if format == "csv" else "") + good + line + "\n"
    result = loading.load(loading.write(f"some.{format}", content), format=format)
    ((update, number, words, raw),) = result.quarantined_rows
    assert (update, number) == (0, 2)
    assert reason in words
    assert raw
    assert [row["who"] for row in loading.rows()] == ["ann"]


def test_a_json_column_may_be_called_as_spark_calls_a_line(loading: Loading) -> None:
    lines = '{"sensor": "a", "value": 1.5}\n{"sensor": "b", "value": "high"}\n'
    columns = [("sensor", "string"), ("value", "double")]
    result = loading.load(loading.write("some.json", lines), columns=columns, format="json")
    assert loading.rows() == [{"sensor": "a", "value": 1.5}]
    ((_, number, words, raw),) = result.quarantined_rows
    assert (number, raw) == (2, '{"sensor": "b", "value": "high"}')
    assert "column `value`: 'high' is not double" in words


def test_values_arrive_as_they_were_written(loading: Loading) -> None:
    text = 'day,who,id,amount,at\n2024-01-02,"a ""quoted"", two-line\nname \\ ",7,-0.50,2024-01-01T10:00:00+02:00\n'
    plain = HEADER + '8,"",,,\n9,,1,2024-01-01,\n'
    result = loading.load(loading.write("reordered.csv", text), loading.write("it's plain.csv", plain))
    assert (result.quarantined_files, result.quarantined_rows) == ([], [])
    rows = loading.rows("SELECT id, who, CAST(amount AS string) amount, CAST(at AS string) at FROM {} ORDER BY id")
    assert rows == [
        {"id": 7, "who": 'a "quoted", two-line\nname \\ ', "amount": "-0.50", "at": "2024-01-01 08:00:00"},
        {"id": 8, "who": None, "amount": None, "at": None},
        {"id": 9, "who": None, "amount": "1.00", "at": "2024-01-01 00:00:00"},
    ]


@pytest.mark.parametrize("small", [True, False])
def test_paths_with_any_characters_are_read(loading: Loading, monkeypatch: pytest.MonkeyPatch, small: bool) -> None:
    if not small:
        monkeypatch.setattr("spark_jobs.load.SMALL_BYTES", 0)
    names = ["a b.csv", "it's [1].csv", "100% *.csv", "ä{x}.csv", "a#b?c=d.csv", 'two "lines"\nof a name.csv']
    paths = [loading.write(name, HEADER + GOOD.replace("1,", f"{number},", 1)) for number, name in enumerate(names)]
    result = loading.load(*paths)
    assert result.quarantined_files == []
    assert result.rows_by_update == dict.fromkeys(range(len(names)), 1)


def test_files_that_vanished_changed_or_are_folders_are_named(loading: Loading, tmp_path: Path) -> None:
    changed = loading.write("changed.csv", HEADER + GOOD)
    good = loading.write("good.csv", HEADER + GOOD)
    (tmp_path / "folder.csv").mkdir()
    result = loading.load(
        good, tmp_path / "gone.csv", changed, tmp_path / "folder.csv", sizes={changed: 9, good: good.stat().st_size}
    )
    reasons = dict(result.quarantined_files)
    assert "does not exist" in reasons[1]
    assert "had 9 bytes when it was announced" in reasons[2]
    assert "is a directory" in reasons[3]
    assert result.rows_by_update == {0: 1, 1: 0, 2: 0, 3: 0}


def test_a_file_that_disappears_between_the_look_and_the_read_is_named_and_the_rest_is_loaded(
    loading: Loading, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, gone = loading.write("good.csv", HEADER + GOOD), loading.write("gone.csv", HEADER + GOOD)
    look = load.inspect

    def look_and_lose(*files: Any, **how: Any) -> Any:
        found = look(*files, **how)
        gone.unlink(missing_ok=True)
        return found

    monkeypatch.setattr(load, "inspect", look_and_lose)
    result = loading.load(good, gone)
    assert result.rows_by_update == {0: 1, 1: 0}
    ((update, words),) = result.quarantined_files
    assert update == 1
    assert "gone.csv" in words


def test_times_at_the_ends_of_what_everybody_reads_are_loaded(loading: Loading) -> None:
    rule = {"expect": "expect_column_values_to_not_be_null", "on_fail": "drop", "arguments": {"column": "id"}}
    content = HEADER + "1,a,1,9999-12-31 23:59:59,0001-01-01\n2,b,1,0001-01-01 00:00:00,9999-12-31\n"
    result = loading.load(loading.write("ends.csv", content), expectations=[rule], interval="day")
    assert (result.rows, result.quarantined_rows) == (2, [])


def expectation(on_fail: str) -> dict[str, Any]:
    arguments = {"column": "id", "min_value": 1, "max_value": 10}
    return {"expect": "expect_column_values_to_be_between", "on_fail": on_fail, "arguments": arguments}


@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize(
    ("on_fail", "loaded", "files", "rows"),
    [("drop", [1, 2], [], [11]), ("block", [2], [0], []), ("warn", [1, 2, 11], [], [])],
)
def test_the_gate_drops_rows_or_blocks_files_or_warns(
    loading: Loading,
    monkeypatch: pytest.MonkeyPatch,
    small: bool,
    on_fail: str,
    loaded: list[int],
    files: list[int],
    rows: list[int],
) -> None:
    if not small:
        monkeypatch.setattr("spark_jobs.load.SMALL_BYTES", 0)
    with_bad = loading.write("with_bad.csv", HEADER + GOOD + GOOD.replace("1,", "11,", 1))
    result = loading.load(
        with_bad,
        loading.write("good.csv", HEADER + GOOD.replace("1,", "2,", 1)),
        expectations=[expectation(on_fail)],
    )
    assert [row["id"] for row in loading.rows()] == loaded
    assert [update for update, _ in result.quarantined_files] == files
    assert [json.loads(raw or "")["id"] for _, _, _, raw in result.quarantined_rows] == rows
    ((name, when, passed, detail),) = result.quality
    assert (name, when, passed) == ("expect_column_values_to_be_between", on_fail, False)
    assert detail["words"].endswith("1 of 3 rows, such as 11")


def test_a_batch_too_small_as_a_whole_is_blocked_as_a_whole(loading: Loading) -> None:
    rule = {"expect": "expect_table_row_count_to_be_between", "on_fail": "block", "arguments": {"min_value": 2}}
    result = loading.load(loading.write("one.csv", HEADER + GOOD), expectations=[rule])
    assert result.rows == 0
    ((_, words),) = result.quarantined_files
    assert "expect_table_row_count_to_be_between(min_value=2): observed 1" in words
    assert loading.rows() == []


def test_a_column_that_was_added_is_null_in_older_rows(loading: Loading) -> None:
    loading.load(loading.write("old.csv", "id\n1\n"), columns=[("id", "int")])
    loading.load(loading.write("new.csv", "id,who\n2,bob\n"), columns=[("id", "long"), ("who", "string")])
    assert loading.rows() == [{"id": 1, "who": None}, {"id": 2, "who": "bob"}]


def test_rows_that_repeat_a_key_within_a_batch_are_told(loading: Loading) -> None:
    result = loading.load(loading.write("twice.csv", HEADER + GOOD + GOOD), key=["id"])
    assert result.rows == 2
    ((name, _, passed, detail),) = result.quality
    assert (name, passed, detail["unexpected"]) == ("unique key", False, 1)


def judged(
    loading: Loading, *expectations: tuple[str, str, dict[str, Any]], content: str = HEADER + GOOD
) -> LoadResult:
    rules = [{"expect": name, "on_fail": on_fail, "arguments": given} for name, on_fail, given in expectations]
    return loading.load(loading.write("judged.csv", content), expectations=rules)


def test_columns_as_such_are_judged_without_ours(loading: Loading) -> None:
    names = [name for name, _ in COLUMNS]
    result = judged(
        loading,
        ("expect_table_columns_to_match_ordered_list", "block", {"column_list": names}),
        ("expect_table_column_count_to_equal", "block", {"value": len(names)}),
        ("expect_column_to_exist", "block", {"column": "who"}),
    )
    assert [passed for _, _, passed, _ in result.quality] == [True, True, True]
    assert result.rows == 1


@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize(("on_fail", "loaded"), [("drop", 1), ("block", 0), ("warn", 2)])
def test_an_expectation_in_sql_blames_the_rows_it_selects(
    loading: Loading, monkeypatch: pytest.MonkeyPatch, small: bool, on_fail: str, loaded: int
) -> None:
    if not small:
        monkeypatch.setattr("spark_jobs.load.SMALL_BYTES", 0)
    query = "SELECT * FROM {batch} WHERE amount > 100 AND who IS NULL"
    # The bad row is the second of the good ones and the third of the file.
    content = HEADER + "x,,,,\n" + GOOD + "7,,200,,\n"
    result = judged(loading, ("sql", on_fail, {"query": query}), content=content)
    assert result.rows == loaded
    ((_, _, passed, detail),) = result.quality
    assert not passed
    assert "id=7" in detail["words"]
    dropped = [
        (number, json.loads(raw or "")["id"]) for _, number, why, raw in result.quarantined_rows if "sql(" in why
    ]
    assert dropped == ([(3 if small else None, 7)] if on_fail == "drop" else [])


def test_an_expectation_in_sql_about_the_whole_blocks_the_whole(loading: Loading) -> None:
    query = "SELECT count(*) AS n FROM {batch} HAVING n < 5"
    result = judged(loading, ("sql", "block", {"query": query}))
    assert result.rows == 0
    ((_, words),) = result.quarantined_files
    assert "n=1" in words


def test_freshness_looks_at_the_newest_value(loading: Loading) -> None:
    rule = ("freshness", "block", {"column": "at", "max_age": 3600.0})
    result = judged(loading, rule)
    ((_, words),) = result.quarantined_files
    assert "the newest value is 2024-01-01T10:00:00+00:00" in words
    from datetime import UTC, datetime

    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S")
    assert judged(loading, rule, content=HEADER + GOOD + f"2,b,1,{now},\n").rows == 2


def test_a_released_file_is_not_judged_and_the_others_are(loading: Loading, spark_connect: Any, tables: Any) -> None:
    rule = {"expect": "expect_table_row_count_to_be_between", "on_fail": "block", "arguments": {"min_value": 5}}
    paths = [loading.write(name, HEADER + GOOD) for name in ("released.csv", "other.csv")]
    files = [SourceFile(update_id=each, path=str(path), gated=each != 0) for each, path in enumerate(paths)]
    result = load_batch(
        spark=spark_connect,
        tables=tables,
        table=loading._name,
        columns=COLUMNS,
        format="csv",
        files=files,
        marker="batch-1",
        expectations=[rule],
    )
    assert result.rows_by_update == {0: 1, 1: 0}
    assert [update for update, _ in result.quarantined_files] == [1]


def test_a_large_batch_is_sifted_like_a_small_one(
    loading: Loading, tables: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = [
        {"expect": "expect_column_values_to_not_be_null", "on_fail": "drop", "arguments": {"column": "who"}},
        {"expect": "sql", "on_fail": "block", "arguments": {"query": "SELECT * FROM {batch} WHERE amount > 100"}},
    ]
    bad, dropped, blocked = "x,ann,1,2024-01-01,2024-01-01\n", "5,,1,2024-01-01,2024-01-01\n", "6,cy,200,,\n"
    paths = [
        loading.write("good, with a comma + a plus.csv", HEADER + GOOD * 3),
        loading.write("some bad.csv", HEADER + GOOD + bad + dropped),
        loading.write("all bad.csv", HEADER + bad * 2),
        loading.write("blocked.csv", HEADER + GOOD + bad + blocked),
        loading.write("reordered.csv", "day,who,id,amount,at\n2024-01-02,bob,7,1.25,2024-01-01\n"),
    ]

    def loaded() -> tuple[Any, ...]:
        result = loading.load(*paths, expectations=rules, interval="day")
        rows = loading.rows("SELECT * FROM {} ORDER BY ALL")
        out = sorted((update, why, raw) for update, _, why, raw in result.quarantined_rows)
        told = (result.rows_by_update, result.covered, sorted(result.quarantined_files), out, result.quality)
        return rows, told, result.table_rows

    small_rows, small, _ = loaded()
    assert len(small_rows) == 5
    monkeypatch.setattr("spark_jobs.load.SMALL_BYTES", 0)
    both, large, total = loaded()
    assert large == small
    assert total == 10
    assert both == sorted(small_rows * 2, key=lambda row: [small_rows.index(row)])
    # What was kept out lies in no Parquet of the attempt either.
    newest = max(tables.files(name, tables.current(name)), key=lambda file: Path(file).stat().st_mtime_ns)
    held = pq.read_table(list(Path(newest).parent.glob("*.parquet")), partitioning=None)
    assert held.num_rows == 5


@pytest.mark.parametrize("small", [True, False])
def test_a_file_that_only_breaks_under_spark_is_found_among_many(
    loading: Loading, monkeypatch: pytest.MonkeyPatch, small: bool
) -> None:
    if not small:
        monkeypatch.setattr("spark_jobs.load.SMALL_BYTES", 0)
    whole = as_parquet(**WHOLE)
    # The footer, which is looked at beforehand, is sound; the pages are not.
    broken = whole[:4] + b"\xff" * 100 + whole[104:]
    paths = [loading.write(f"{number}.parquet", broken if number == 2 else whole) for number in range(5)]
    result = loading.load(*paths, format="parquet")
    ((update, words),) = result.quarantined_files
    assert (update, result.rows) == (2, 4)
    assert "2.parquet: Spark cannot read it" in words
    assert len(loading.rows()) == 4
