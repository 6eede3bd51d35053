"""The quality gate: great-expectations over a new batch, before anybody can read it.

An expectation says what its failure does: `block` keeps the offending files out (the whole batch when no row can be
blamed), `drop` keeps the offending rows out, `warn` is only written down. It looks at the new rows alone, in pandas for
a small batch and on Spark for a large one.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

ON_FAIL = ("block", "drop", "warn")
#: The column that tells rows apart in what the gate is shown.
ROW = "_row"
#: Above this many offending rows they are not told apart any more: the batch is wrong, not some rows.
MOST_ROWS = 10_000
_SAMPLE = 5


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


def judge(frame: Any, expectations: Sequence[Mapping[str, Any]], *, on_spark: bool) -> Verdict:
    """Evaluate every expectation on a pandas frame, or a Spark frame, with a column `_row` of row ids."""
    verdict = Verdict()
    if not expectations:
        return verdict
    sources = context().data_sources
    source = sources.add_or_update_spark("on Spark") if on_spark else sources.add_or_update_pandas("here")
    asset = source.add_dataframe_asset("rows")
    batch = asset.add_batch_definition_whole_dataframe("all").get_batch({"dataframe": frame})
    for spec in expectations:
        _judge_one(batch, spec, verdict)
    return verdict


def _judge_one(batch: Any, spec: Mapping[str, Any], verdict: Verdict) -> None:
    name, on_fail, arguments = spec["expect"], spec["on_fail"], spec["arguments"]
    if on_fail not in ON_FAIL:
        raise GateError(f"{name}: on_fail is `{on_fail}`, which is not one of {', '.join(ON_FAIL)}")
    expectation = _expectation(name, arguments)
    result = _run(batch, expectation, {"result_format": "SUMMARY"}, name)
    unexpected = result.result.get("unexpected_count")
    words = f"{_call(spec['expect'], arguments)}: {_words(result)}"
    verdict.quality.append((name, on_fail, bool(result.success), {"words": words, **_counts(result.result)}))
    if result.success or on_fail == "warn":
        return
    if not unexpected or unexpected > MOST_ROWS:
        verdict.blocked.append(words)
        return
    detail = _run(batch, expectation, {"result_format": "COMPLETE", "unexpected_index_column_names": [ROW]}, name)
    offenders = detail.result.get("unexpected_index_list")
    if not offenders:
        verdict.blocked.append(words)
        return
    into = verdict.block_rows if on_fail == "block" else verdict.drop_rows
    for offender in offenders:
        into.setdefault(int(offender[ROW]), words)


def _expectation(name: str, arguments: Mapping[str, Any]) -> Any:
    from great_expectations.exceptions import ExpectationNotFoundError
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration
    from great_expectations.expectations.registry import list_registered_expectation_implementations

    try:
        return ExpectationConfiguration(type=name, kwargs=dict(arguments)).to_domain_obj()
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
