"""The quality gate: great-expectations over a new batch, before anybody can read it.

Besides great-expectations' own there are two: `sql`, a query over {batch} that selects what must not be there, and
`freshness`, by a column's newest value. An expectation says what its failure does: `block` keeps the offending files
out (the whole batch when no row can be blamed), `drop` keeps the offending rows out, `warn` is only written down. It
looks at the new rows alone, in pandas for a small batch and on Spark for a large one.
"""

from __future__ import annotations

import difflib
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import cache
from typing import Any

ON_FAIL = ("block", "drop", "warn")
#: Expectations that are not great-expectations'.
OWN = ("sql", "freshness")
#: The column that tells rows apart in what the gate is shown.
ROW = "_row"
#: Above this many offending rows they are not told apart any more: the batch is wrong, not some rows.
MOST_ROWS = 10_000
_SAMPLE = 5
_SUMMARY = {"result_format": "SUMMARY"}


class GateError(Exception):
    """An expectation cannot be evaluated; nothing was loaded."""


#: Expectation, on_fail, whether it was met, and what a person should know: counts, a sample, a sentence.
Quality = tuple[str, str, bool, dict[str, Any]]


@dataclass(slots=True, kw_only=True)
class Verdict:
    """What the gate lets through."""

    quality: list[Quality] = field(default_factory=list)
    #: Why no row of the batch may pass.
    blocked: list[str] = field(default_factory=list)
    #: Row id to reason: keep this row's whole file out.
    block_rows: dict[int, str] = field(default_factory=dict)
    #: Row id to reason: keep this row out.
    drop_rows: dict[int, str] = field(default_factory=dict)


def judge(
    frame: Any,
    expectations: Sequence[Mapping[str, Any]],
    *,
    on_spark: bool,
    as_spark: Callable[[], Any] | None = None,
) -> Verdict:
    """Evaluate every expectation on a pandas frame, or a Spark frame, with a column `_row` of row ids.

    `as_spark` gives the same rows as a Spark frame, for expectations in SQL.
    """
    verdict = Verdict()
    theirs = [spec for spec in expectations if spec["expect"] not in OWN]
    for spec in expectations:
        if spec["on_fail"] not in ON_FAIL:
            raise GateError(
                f"{spec['expect']}: on_fail is `{spec['on_fail']}`, which is not one of {', '.join(ON_FAIL)}"
            )
        if spec["expect"] == "freshness":
            _judge_freshness(frame, spec, verdict, on_spark=on_spark)
        if spec["expect"] == "sql":
            _judge_sql(frame if as_spark is None else as_spark(), spec, verdict)
    if not theirs:
        return verdict
    sources = context().data_sources
    # Held by Spark the rows would be written down whole before the first look at a column, and never given back.
    source = (
        sources.add_or_update_spark("on Spark", persist=False) if on_spark else sources.add_or_update_pandas("here")
    )
    whole = source.add_dataframe_asset("rows").add_batch_definition_whole_dataframe("all")
    # Expectations about the columns as such must not see the one that is ours.
    bare = [spec for spec in theirs if spec["expect"].startswith("expect_table_column")]
    rest = [spec for spec in theirs if spec not in bare]
    found: dict[int, tuple[Any, Any]] = {}
    for specs, rows in ((bare, frame.drop(ROW) if on_spark else frame.drop(columns=[ROW])), (rest, frame)):
        if specs:
            batch = whole.get_batch({"dataframe": rows})
            results = _run_together(batch, specs, on_spark=on_spark)
            found |= {id(spec): (batch, result) for spec, result in zip(specs, results, strict=True)}
    for spec in theirs:
        _note_theirs(*found[id(spec)], spec, verdict)
    return verdict


def _judge_freshness(frame: Any, spec: Mapping[str, Any], verdict: Verdict, *, on_spark: bool) -> None:
    column, limit = spec["arguments"]["column"], spec["arguments"]["max_age"]
    if on_spark:
        from pyspark.sql import functions as F  # noqa: N812

        newest = frame.agg(F.max(column)).first()[0]
    else:
        present = frame[column].dropna()
        newest = present.max() if len(present) else None
    at = instant(newest.to_pydatetime() if hasattr(newest, "to_pydatetime") else newest)
    age = None if at is None else (datetime.now(UTC) - at).total_seconds()
    told = "no row has a value" if at is None else f"the newest value is {at.isoformat()}, {age:.0f} s old"
    met = age is not None and age <= limit
    _note(verdict, spec, met, f"freshness({column}, at most {limit:g} s old): {told}", {})


def _judge_sql(frame: Any, spec: Mapping[str, Any], verdict: Verdict) -> None:
    from pyspark.errors import PySparkException

    view = f"batch_{uuid.uuid4().hex}"
    query = spec["arguments"]["query"]
    frame.createOrReplaceTempView(view)
    try:
        found = frame.sparkSession.sql(query.replace("{batch}", view)).limit(MOST_ROWS + 1).toArrow()
    except PySparkException as error:
        first = str(error).strip().splitlines()[0].replace(view, "{batch}")
        raise GateError(f"sql({query}) cannot be evaluated on this batch: {first}") from error
    shown = found.drop_columns([ROW]) if ROW in found.column_names else found
    sample = [", ".join(f"{name}={value}" for name, value in row.items()) for row in shown.slice(0, 3).to_pylist()]
    counted = "more" if found.num_rows > MOST_ROWS else str(found.num_rows)
    told = f"selects {counted} rows, such as {'; '.join(sample)}" if sample else "met"
    words = f"sql({' '.join(query.split())}): {told}"
    counts = {"unexpected": found.num_rows, "sample": sample}
    _note(verdict, spec, not found.num_rows, words, counts)
    if not found.num_rows or spec["on_fail"] == "warn" or ROW not in found.column_names or found.num_rows > MOST_ROWS:
        return
    verdict.blocked.remove(words)
    into = verdict.block_rows if spec["on_fail"] == "block" else verdict.drop_rows
    for row in found[ROW].to_pylist():
        into.setdefault(int(row), words)


def _note(verdict: Verdict, spec: Mapping[str, Any], met: bool, words: str, counts: Mapping[str, Any]) -> None:
    """Writes a result down; when it failed and no row can be blamed, the batch is."""
    verdict.quality.append((spec["expect"], spec["on_fail"], met, {"words": words, **counts}))
    if not met and spec["on_fail"] != "warn":
        verdict.blocked.append(words)


def instant(value: Any) -> datetime | None:
    """An aware time; a date is its midnight, and a time without a zone is UTC."""
    if value is None:
        return None
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    raise TypeError(f"the column holds {value!r}; it must be a timestamp or a date")


def _note_theirs(batch: Any, result: Any, spec: Mapping[str, Any], verdict: Verdict) -> None:
    """Writes down what great-expectations found; when it failed, asks once more, for the rows to blame."""
    name, on_fail, arguments = spec["expect"], spec["on_fail"], spec["arguments"]
    unexpected = result.result.get("unexpected_count")
    words = f"{_call(name, arguments)}: {_words(result)}"
    verdict.quality.append((name, on_fail, bool(result.success), {"words": words, **_counts(result.result)}))
    if result.success or on_fail == "warn":
        return
    if not unexpected or unexpected > MOST_ROWS:
        verdict.blocked.append(words)
        return
    expectation = _expectation(name, arguments)
    detail = _run(batch, expectation, {"result_format": "COMPLETE", "unexpected_index_column_names": [ROW]}, name)
    offenders = detail.result.get("unexpected_index_list")
    if not offenders:
        verdict.blocked.append(words)
        return
    into = verdict.block_rows if on_fail == "block" else verdict.drop_rows
    for offender in offenders:
        into.setdefault(int(offender[ROW]), words)


def _run_together(batch: Any, specs: Sequence[Mapping[str, Any]], *, on_spark: bool) -> list[Any]:
    """The results of all, from as few looks at the rows as great-expectations can do with."""
    from great_expectations import ExpectationSuite

    def alone(spec: Mapping[str, Any]) -> Any:
        return _run(batch, _expectation(spec["expect"], spec["arguments"]), _SUMMARY, spec["expect"])

    asked = [_expectation(spec["expect"], spec["arguments"], place=place) for place, spec in enumerate(specs)]
    suite = ExpectationSuite(name="all", expectations=asked)
    # A sample costs Spark a look at all rows, also where there is nothing to show: whoever fails is asked for it.
    found = batch.validate(suite, result_format={"result_format": "BOOLEAN_ONLY"} if on_spark else _SUMMARY).results
    if any(next(_failures(each.exception_info), None) for each in found):
        # One that cannot be evaluated may take the others with it: alone they tell who it was.
        return [alone(spec) for spec in specs]
    found = sorted(found, key=lambda each: each.expectation_config.meta["place"])
    if not on_spark:
        return found
    return [each if each.success else alone(spec) for spec, each in zip(specs, found, strict=True)]


def _expectation(name: str, arguments: Mapping[str, Any], **meta: Any) -> Any:
    from great_expectations.exceptions import ExpectationNotFoundError
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration
    from great_expectations.expectations.registry import list_registered_expectation_implementations

    try:
        return ExpectationConfiguration(type=name, kwargs=dict(arguments), meta=meta).to_domain_obj()
    except ExpectationNotFoundError as error:
        near = difflib.get_close_matches(name, list_registered_expectation_implementations(), n=1)
        hint = f" Did you mean `{near[0]}`?" if near else ""
        raise GateError(f"`{name}` is no expectation great-expectations knows.{hint}") from error
    except (ValueError, TypeError) as error:
        raise GateError(f"{_call(name, arguments)}: {error}") from error


def _run(batch: Any, expectation: Any, result_format: dict[str, Any], name: str) -> Any:
    result = batch.validate(expectation, result_format=result_format)
    if message := next(_failures(result.exception_info), None):
        raise GateError(f"{name} cannot be evaluated on this batch: {message}")
    return result


def _failures(info: Any) -> Iterator[str]:
    """The messages in great-expectations' exception info: one entry, or one for each metric that failed."""
    entries = [info] if "raised_exception" in info else list(info.values())
    return (str(entry["exception_message"] or "no reason given") for entry in entries if entry["raised_exception"])


def _call(name: str, arguments: Mapping[str, Any]) -> str:
    shown = [str(arguments["column"])] if "column" in arguments else []
    shown += [f"{key}={value}" for key, value in arguments.items() if key != "column"]
    return f"{name}({', '.join(shown)})"


def _counts(found: Mapping[str, Any]) -> dict[str, Any]:
    """What the page shows beside the sentence; nothing for an expectation that is not about single rows."""
    if found.get("unexpected_count") is None:
        return {}
    sample = [str(value) for value in found.get("partial_unexpected_list", [])[:_SAMPLE]]
    return {"rows": found["element_count"], "unexpected": found["unexpected_count"], "sample": sample}


def _words(result: Any) -> str:
    if result.success:
        return "met"
    found = _counts(result.result)
    if not found:
        return f"observed {result.result.get('observed_value')}"
    sample = ", ".join(found["sample"])
    return f"{found['unexpected']} of {found['rows']} rows" + (f", such as {sample}" if sample else "")


@cache
def context() -> Any:
    """great-expectations, ready to judge; takes seconds the first time."""
    import os

    # Read when the library is imported: nothing of a batch may leave the machine, not even its shape.
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    import great_expectations

    context = great_expectations.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    return context
