"""Whatever the files hold, every row is in the table as it was written, or in quarantine, and never in both."""

import csv
import io
import json
import tempfile
import uuid
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spark_jobs.load import LoadResult, SourceFile, load_batch
from spark_jobs.query import run_query

pytestmark = pytest.mark.services

COLUMNS = [("tag", "string"), ("text", "string"), ("number", "long"), ("price", "decimal(8,2)")]
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
AWKWARD = st.sampled_from(
    ['"', '""', ",", "a\nb", "a\r\nb", "\r", "\\", '\\"', "#x", " x ", "NULL", "nan", "'", "\ufeff"]
)
NUMBER = st.one_of(
    st.integers(-(2**63) - 2, 2**63 + 2).map(str), st.sampled_from(["", "7", "7.0", "1e3", "seven", " 7", "0x7", "７"])
)
PRICE = st.one_of(
    st.decimals(-(10**7), 10**7, places=2).map(str), st.sampled_from(["", "1.005", "999999.99", "1000000", "1e2", "x"])
)
CSV_ROW = st.tuples(st.one_of(TEXT, AWKWARD), NUMBER, PRICE)
JSON_VALUE = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**64), 2**64), st.floats(allow_nan=False), TEXT, st.lists(st.integers())
)
JSON_ROW = st.dictionaries(st.sampled_from(["text", "number", "price", "stranger"]), JSON_VALUE)
JUNK = st.sampled_from(["", ",,,,,,", 'x,"', "{", "null", "{}}", '{"tag": 1']).map(lambda line: line + "\n")


def as_csv(tag: str, row: Any) -> str:
    sink = io.StringIO()
    csv.writer(sink, lineterminator="\n").writerow([tag, *row])
    return sink.getvalue()


def as_json(tag: str, row: Any) -> str:
    return json.dumps({"tag": tag, **row}) + "\n"


@pytest.mark.parametrize(("format", "row", "written"), [("csv", CSV_ROW, as_csv), ("json", JSON_ROW, as_json)])
def test_every_row_is_in_the_table_or_in_quarantine(
    spark_connect: Any, tables: Any, format: str, row: st.SearchStrategy[Any], written: Any
) -> None:
    @settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
    @given(files=st.lists(st.lists(st.one_of(row, JUNK), max_size=12), min_size=1, max_size=3))
    def holds(files: list[list[Any]]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            tags: list[dict[str, Any]] = []
            sources = []
            for number, rows in enumerate(files):
                path = Path(folder) / f"{number}.{format}"
                tagged = {f"<{number}.{place}>": each for place, each in enumerate(rows) if not isinstance(each, str)}
                lines = [
                    each if isinstance(each, str) else written(f"<{number}.{place}>", each)
                    for place, each in enumerate(rows)
                ]
                header = "tag,text,number,price\n" if format == "csv" else ""
                path.write_text(header + "".join(lines), newline="")
                tags.append(tagged)
                sources.append(SourceFile(update_id=number, path=str(path)))
            table = f"p{uuid.uuid4().hex[:12]}"
            result = load_batch(
                spark=spark_connect,
                tables=tables,
                table=table,
                columns=COLUMNS,
                format=format,
                files=sources,
                marker="batch-1",
            )
            reads = {table: result.snapshot_id}
            loaded = run_query(spark_connect, tables, f"SELECT * FROM {table}", reads, {}).to_pylist()
        check(tags, loaded, result, format)

    holds()


def check(files: list[dict[str, Any]], loaded: list[dict[str, Any]], result: LoadResult, format: str) -> None:
    refused = dict(result.quarantined_files)
    for number, rows in enumerate(files):
        for tag, row in rows.items():
            in_table = [each for each in loaded if each["tag"] == tag]
            in_quarantine = [raw for _, _, _, raw in result.quarantined_rows if tag in (raw or "")]
            places = len(in_table) + len(in_quarantine) + (number in refused)
            assert places == 1, f"{tag} {row!r} is in {places} places: {in_table} {in_quarantine} {refused}"
            for found in in_table:
                same_csv(row, found) if format == "csv" else same_json(row, found)


def same_csv(row: Any, found: dict[str, Any]) -> None:
    text, number, price = row
    assert found["text"] == (text or None)
    assert found["number"] == (int(number) if number else None)
    assert (found["price"] is None) if not price else float(found["price"]) == float(price)


def same_json(row: dict[str, Any], found: dict[str, Any]) -> None:
    assert "stranger" not in row
    assert found["number"] == row.get("number")
    assert isinstance(row.get("number"), (int, type(None)))
    if isinstance(row.get("text"), str):
        assert found["text"] == row["text"]
    if row.get("price") is not None:
        assert float(found["price"]) == float(row["price"])
