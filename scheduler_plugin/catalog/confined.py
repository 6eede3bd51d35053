"""SQL from people, confined to the catalog: one SELECT over its objects, with functions that look at nothing else.

What is run is not the text that was given but the text that follows from how it was understood here: a trick that the
parser here reads one way and Spark another has then no second reading. Function names that the parser does not know
must stand in a list. Spark's own switches against files in SQL and variables in text are set beside it
(`spark_jobs.query.confine`).
"""

import difflib
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from scheduler_plugin.catalog.parents import NotASelectError, parents_of

#: A text longer than this is no question of a person.
LONGEST_SQL = 100_000
#: Texts and arrays that a function may make out of nothing have at most so many parts.
LONGEST_MADE = 10_000
DAYS_OR_LONGER = frozenset({"DAY", "WEEK", "MONTH", "QUARTER", "YEAR"})
_WIDE = re.compile(r"%[^a-zA-Z%]*\d{5}")
#: Functions of Spark's that the parser has no node for. They compute from their arguments alone.
_PLAIN = """
acosh add_months aggregate any approx_count_distinct approx_percentile array_append array_compact array_contains
array_distinct array_except array_insert array_intersect array_join array_max array_min array_position array_prepend
array_remove array_repeat array_size array_sort array_union arrays_overlap arrays_zip asinh atanh bin bit_and
bit_count bit_get bit_length bit_or bit_xor bool_and bool_or bround btrim cardinality cbrt char char_length
character_length chr collect_list collect_set concat_ws conv cos cosh count_min_sketch covar_pop covar_samp crc32
cume_dist date_from_unix_date date_part datepart day dayname dayofmonth decode degrees dense_rank e element_at elt
encode endswith equal_null every exists exp explode explode_outer expm1 factorial filter find_in_set first flatten
float floor forall format_number format_string from_csv from_utc_timestamp get get_json_object getbit grouping
grouping_id hash histogram_numeric hypot ifnull ilike initcap inline inline_outer instr int isnan isnotnull isnull
json_array_length json_object_keys json_tuple kurtosis last last_day last_value lcase left len levenshtein ln locate
log10 log1p log2 lpad luhn_check make_date make_dt_interval make_interval make_timestamp make_timestamp_ltz
make_timestamp_ntz make_ym_interval map map_concat map_contains_key map_entries map_filter map_from_arrays
map_from_entries map_keys map_values map_zip_with mask max_by median min_by mod mode monotonically_increasing_id
monthname months_between named_struct nanvl negative next_day nth_value ntile nullifzero nvl octet_length parse_url
percent_rank percentile percentile_approx percentile_cont percentile_disc pmod posexplode posexplode_outer position
positive pow printf quarter radians reduce regexp regexp_count regexp_extract_all regexp_instr regexp_like
regexp_substr regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy replace
reverse right rint rlike rpad schema_of_csv schema_of_json sec sentences sequence shiftleft shiftright
shiftrightunsigned shuffle sign signum sin sinh size skewness slice smallint some sort_array soundex space split_part
stack startswith std stddev_pop stddev_samp str_to_map string struct substr substring_index tan tanh timestamp
timestamp_micros timestamp_millis timestamp_seconds tinyint to_char to_csv to_json to_number to_unix_timestamp
to_utc_timestamp to_varchar transform transform_keys transform_values translate trunc try_add try_avg try_divide
try_element_at try_mod try_multiply try_subtract try_sum try_to_binary try_to_number try_to_timestamp typeof ucase
unbase64 unix_date unix_micros unix_millis unix_seconds unix_timestamp url_decode url_encode var_pop var_samp weekday
width_bucket window window_time xxhash64 zeroifnull zip_with
"""
PLAIN = frozenset(_PLAIN.split())
#: Functions that may stand after FROM.
AFTER_FROM = frozenset({"explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "inline_outer"})


class ConfinedError(ValueError):
    """The SQL is not one question about the catalog; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Confined:
    """A question that may be run."""

    #: As it is to be run.
    sql: str
    #: The objects it names.
    objects: tuple[str, ...]


def confined(sql: str, known: Collection[str]) -> Confined:
    """The SQL as it may be run; `known` are the catalog's objects. ConfinedError says what is not allowed."""
    import sqlglot
    from sqlglot import exp

    if len(sql) > LONGEST_SQL:
        raise ConfinedError(f"the SQL has {len(sql)} characters; {LONGEST_SQL} are the most")
    try:
        names = parents_of(sql)
    except NotASelectError as error:
        raise ConfinedError(f"it {error}".replace("A view is a single SELECT", "Ask with a single SELECT")) from None
    except RecursionError:
        raise ConfinedError("it is nested too deeply") from None
    query: Any = next(
        each for each in sqlglot.parse(sql, read="spark") if each is not None and not isinstance(each, exp.Semicolon)
    )
    if not isinstance(query, (exp.Select, exp.SetOperation, exp.Subquery)):
        raise ConfinedError(f"it is a statement of kind {query.key.upper()}. Ask with a single SELECT.")
    for node in query.walk():
        _look(node, exp)
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f" Did you mean `{near[0]}`?" if near else " `freshet status` lists what there is."
            raise ConfinedError(f"it reads `{name}`, which is no table or view of the catalog.{hint}")
    if not names:
        raise ConfinedError("it reads no table or view of the catalog")
    text = query.sql(dialect="spark", comments=False)
    if "${" in text:
        raise ConfinedError("it holds `${`, which Spark would replace by a setting or a variable of the server")
    return Confined(sql=text, objects=names)


def _look(node: Any, exp: Any) -> None:
    """Refuses what writes, reads elsewhere, or tells of the server."""
    forbidden = (
        exp.Command, exp.DDL, exp.DML, exp.Into, exp.QueryTransform, exp.Parameter, exp.Placeholder,
        exp.SessionParameter, exp.DynamicIdentifier,
    )  # fmt: skip
    if isinstance(node, forbidden):
        raise ConfinedError(f"{node.key.upper()} is not allowed in a query")
    if isinstance(node, exp.Table):
        if isinstance(node.this, exp.Func):
            if _name(node.this, exp) not in AFTER_FROM:
                raise ConfinedError(f"the function {_name(node.this, exp)} may not stand after FROM")
        elif node.db or node.catalog:
            raise ConfinedError(f"`{node.sql('spark')}` has a schema. Name tables and views without one.")
        if node.args.get("version") or node.args.get("when"):
            raise ConfinedError("an older version is read with --as-of or --version, for the query as a whole")
    elif isinstance(node, exp.Func):
        name = _name(node, exp)
        if isinstance(node, (exp.Anonymous, exp.AnonymousAggFunc)) and name not in PLAIN:
            raise ConfinedError(f"the function {name} is not allowed in a query")
        if name.startswith(("current_", "session_", "read_", "ai_", "ml_")) and not isinstance(
            node, (exp.CurrentDate, exp.CurrentTimestamp, exp.CurrentTimezone)
        ):
            raise ConfinedError(f"the function {name} is not allowed in a query")
        if isinstance(node, (exp.ToFile, exp.Secret, exp.OpenJSON, exp.NextValueFor, exp.Predict, exp.GenerateText)):
            raise ConfinedError(f"the function {name} is not allowed in a query")
        _require_small(node, name, exp)
    elif isinstance(node, exp.Identifier) and node.name.lower() == "_metadata":
        raise ConfinedError("`_metadata` tells of files, not of data")


def _require_small(node: Any, name: str, exp: Any) -> None:
    """Refuses what makes a value of any size from next to nothing: one such value takes all of the server's memory."""
    sizes: list[Any] = []
    if isinstance(node, exp.GroupConcat) and node.args.get("separator") is None:
        raise ConfinedError(f"{name} needs its separator said: without one it is understood in more than one way")
    if isinstance(node, (exp.Repeat, exp.Space, exp.Pad, exp.Randstr)):
        sizes = [node.args.get("times") or node.args.get("expression") or node.this]
    elif name == "array_repeat":
        sizes = node.expressions[1:2]
    elif isinstance(node, exp.GenerateSeries) and not _by_days(node, exp):
        # What the parser calls generate_series has one name in Spark.
        name, sizes = "sequence", [node.args.get("start"), node.args.get("end")]
    elif isinstance(node, exp.Format) or name == "printf":
        given = node.this if isinstance(node, exp.Format) else next(iter(node.expressions), None)
        if not (isinstance(given, exp.Literal) and given.is_string) or _WIDE.search(given.this):
            raise ConfinedError(f"{name} takes a text as its format here, and no width above {LONGEST_MADE:,}")
    for size in sizes:
        size = size.this if isinstance(size, exp.Neg) else size
        if not (isinstance(size, exp.Literal) and size.this.isdecimal() and int(size.this) <= LONGEST_MADE):
            hint = ", or a step like INTERVAL 1 DAY" if isinstance(node, exp.GenerateSeries) else ""
            raise ConfinedError(f"{name} takes a number up to {LONGEST_MADE:,} here{hint}: more could fill the memory")


def _by_days(node: Any, exp: Any) -> bool:
    """Whether a sequence goes by days or longer: between any two dates these are few."""
    step = node.args.get("step")
    if not isinstance(step, exp.Interval) or step.this is None:
        return False
    number = str(step.this.this)
    return number.isdecimal() and int(number) > 0 and str(step.unit).upper().rstrip("S") in DAYS_OR_LONGER


def _name(node: Any, exp: Any) -> str:
    anonymous = isinstance(node, (exp.Anonymous, exp.AnonymousAggFunc))
    return str(node.name if anonymous else node.sql_name()).lower()
