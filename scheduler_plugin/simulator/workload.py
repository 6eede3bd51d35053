"""Reading a workload with care: what is wrong is said by field, and nothing doubtful gets through.

Every refusal is a `WorkloadError` that names the field and what was expected there. Unknown fields are ignored.
"""

import difflib
import json
import math
from collections.abc import Collection, Iterator, Mapping
from typing import Final

#: More slots than this are a slip of the keyboard.
MOST_SLOTS = 1_000_000


class WorkloadError(ValueError):
    """The workload, the policy or a parameter cannot be used; the message says what to change."""


class _Required:
    """Marks a field without a default."""


REQUIRED: Final = _Required()


def parse(text: str | bytes) -> dict[str, object]:
    """The workload in a JSON text.

    >>> parse('{"model": "append", "slots": NaN}')
    Traceback (most recent call last):
    scheduler_plugin.simulator.workload.WorkloadError: slots must be a finite number, not NaN
    """
    constants: list[str] = []

    def note(constant: str) -> float:
        constants.append(constant)
        return float(constant)

    try:
        found = json.loads(text, parse_constant=note)
    except (ValueError, RecursionError) as error:
        raise WorkloadError(f"the workload is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise WorkloadError(f"the workload must be a JSON object, not {kind(found)}")
    if constants:
        raise WorkloadError(f"{_first_not_finite(found)} must be a finite number, not {constants[0]}")
    return found


def _first_not_finite(workload: dict[str, object]) -> str:
    """The path to the first NaN or infinity, in the order of the text."""
    waiting: list[tuple[str, object]] = [("", workload)]
    while waiting:
        where, value = waiting.pop()
        if isinstance(value, dict):
            waiting += reversed([(f"{where}.{name}" if where else name, each) for name, each in value.items()])
        elif isinstance(value, list):
            waiting += reversed([(f"{where}[{place}]", each) for place, each in enumerate(value)])
        elif isinstance(value, float) and not math.isfinite(value):
            return where
    return "a field that is given twice"


def kind(value: object) -> str:
    """What a person calls a JSON value: `a list`, `null`, `the text "x"`."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'the text "{value}"' if len(value) <= 40 else "a text"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, dict):
        return "an object"
    shown = str(value)
    return shown if len(shown) <= 40 else "a number of that size"


def finite(value: object, where: str, *, minimum: float | None = None, above: float | None = None) -> float:
    """`value` as a finite number within its limits; `where` names it in the refusal.

    >>> finite(3, "slots")
    3.0
    >>> finite(-1, "tables[0].alpha", minimum=0)
    Traceback (most recent call last):
    scheduler_plugin.simulator.workload.WorkloadError: tables[0].alpha must be a number of at least 0, not -1
    """
    if type(value) is float or type(value) is int:
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number) and (minimum is None or number >= minimum) and (above is None or number > above):
            return number
    limits = "" if minimum is None else f" of at least {minimum:g}"
    limits += "" if above is None else f" above {above:g}"
    raise WorkloadError(f"{where} must be a {'' if limits else 'finite '}number{limits}, not {kind(value)}")


def whole(value: object, where: str, *, minimum: int | None = None, maximum: int | None = None) -> int:
    """`value` as a whole number within its limits; 3.0 counts as 3."""
    if (type(value) is int or (type(value) is float and value.is_integer())) and abs(value) < 2**63:
        number = int(value)
        if (minimum is None or number >= minimum) and (maximum is None or number <= maximum):
            return number
    limits = "" if minimum is None else f" of at least {minimum}"
    limits += "" if maximum is None else f" of at most {maximum}"
    raise WorkloadError(f"{where} must be a whole number{limits}, not {kind(value)}")


class Fields:
    """One JSON object of a workload, read field by field.

    >>> table = Fields({"id": "flights", "alpha": True}, "tables[0]")
    >>> table.text("id")
    'flights'
    >>> table.number("alpha", minimum=0)
    Traceback (most recent call last):
    scheduler_plugin.simulator.workload.WorkloadError: tables[0].alpha must be a number of at least 0, not true
    """

    __slots__ = ("values", "where")

    def __init__(self, values: object, where: str = "") -> None:
        if not isinstance(values, dict):
            raise WorkloadError(f"{where or 'the workload'} must be an object, not {kind(values)}")
        self.values: dict[str, object] = values
        #: The path to this object, for messages; empty at the top.
        self.where = where

    def path(self, name: str) -> str:
        return f"{self.where}.{name}" if self.where else name

    def has(self, name: str) -> bool:
        """Whether the field is there and is not null."""
        return self.values.get(name) is not None

    def get(self, name: str, default: object = REQUIRED) -> object:
        """The field as it stands; null counts as absent."""
        value = self.values.get(name)
        if value is not None:
            return value
        if default is REQUIRED:
            raise WorkloadError(f"{self.path(name)} is missing")
        return default

    def number(
        self,
        name: str,
        default: float | _Required = REQUIRED,
        *,
        minimum: float | None = None,
        above: float | None = None,
    ) -> float:
        return finite(self.get(name, default), self.path(name), minimum=minimum, above=above)

    def whole(
        self,
        name: str,
        default: int | _Required = REQUIRED,
        *,
        minimum: int | None = None,
        maximum: int | None = None,
    ) -> int:
        return whole(self.get(name, default), self.path(name), minimum=minimum, maximum=maximum)

    def slots(self) -> int:
        """The `slots` of a workload; 1 where absent."""
        return self.whole("slots", 1, minimum=1, maximum=MOST_SLOTS)

    def text(self, name: str, default: str | _Required = REQUIRED) -> str:
        value = self.get(name, default)
        if not isinstance(value, str) or not value:
            raise WorkloadError(f"{self.path(name)} must be a text that is not empty, not {kind(value)}")
        return value

    def choice(self, name: str, choices: Collection[str], default: str | _Required = REQUIRED) -> str:
        return one_of(self.get(name, default), self.path(name), choices)

    def flag(self, name: str, default: bool | _Required = REQUIRED) -> bool:
        value = self.get(name, default)
        if not isinstance(value, bool):
            raise WorkloadError(f"{self.path(name)} must be true or false, not {kind(value)}")
        return value

    def items(self, name: str, default: list[object] | _Required = REQUIRED) -> list[object]:
        value = self.get(name, default)
        if not isinstance(value, list):
            raise WorkloadError(f"{self.path(name)} must be a list, not {kind(value)}")
        return value

    def numbers(self, name: str, *, minimum: float | None = None) -> list[float]:
        """A list of finite numbers."""
        where = self.path(name)
        return [
            finite(value, f"{where}[{position}]", minimum=minimum) for position, value in enumerate(self.items(name))
        ]

    def texts(self, name: str, default: list[object] | _Required = REQUIRED) -> list[str]:
        values = self.items(name, default)
        for position, value in enumerate(values):
            if not isinstance(value, str) or not value:
                raise WorkloadError(f"{self.path(name)}[{position}] must be a text, not {kind(value)}")
        return [str(value) for value in values]

    def objects(self, name: str, default: list[object] | _Required = REQUIRED) -> Iterator["Fields"]:
        """The objects of a list field, each with its own path."""
        where = self.path(name)
        for position, value in enumerate(self.items(name, default)):
            yield Fields(value, f"{where}[{position}]")


def one_of(value: object, where: str, choices: Collection[str]) -> str:
    """`value`, which must be one of `choices`; a near miss is told which one was probably meant."""
    if isinstance(value, str) and value in choices:
        return value
    close = difflib.get_close_matches(value, choices, n=1) if isinstance(value, str) else []
    hint = f". Did you mean {close[0]}?" if close else ""
    raise WorkloadError(f"{where} must be one of {', '.join(choices)}, not {kind(value)}{hint}")


def unique(names: Collection[str], where: str) -> None:
    """Refuses a name that comes twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise WorkloadError(f"{where}: the id {name} is declared twice")
        seen.add(name)


class Params:
    """The `--param` words of one run. Every model knows `schedule` and `seed`; other names must be asked for.

    >>> Params({"sead": "1"}).finish()
    Traceback (most recent call last):
    scheduler_plugin.simulator.workload.WorkloadError: there is no parameter sead here. Did you mean seed?
    """

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = dict(given)
        self._known: dict[str, None] = {}
        #: Whether the result carries the schedule; `--param schedule=0` leaves it out.
        self.schedule = self.choice("schedule", ("1", "0"), "1") == "1"
        self.seed = self.whole("seed", 0)

    def has(self, name: str) -> bool:
        self._known[name] = None
        return name in self._given

    def choice(self, name: str, choices: Collection[str], default: str) -> str:
        return one_of(self._given[name], f"--param {name}", choices) if self.has(name) else default

    def whole(self, name: str, default: int, *, minimum: int | None = None) -> int:
        if not self.has(name):
            return default
        try:
            return whole(int(self._given[name]), f"--param {name}", minimum=minimum)
        except ValueError as error:
            if isinstance(error, WorkloadError):
                raise
            raise WorkloadError(f"--param {name} must be a whole number, not {kind(self._given[name])}") from None

    def number(self, name: str, default: float, *, minimum: float | None = None, above: float | None = None) -> float:
        if not self.has(name):
            return default
        try:
            value: object = float(self._given[name])
        except ValueError:
            value = self._given[name]
        return finite(value, f"--param {name}", minimum=minimum, above=above)

    def finish(self) -> None:
        """Refuses what nobody asked for; call it once all parameters are read."""
        for name in self._given:
            if name not in self._known:
                close = difflib.get_close_matches(name, self._known, n=1)
                hint = f"Did you mean {close[0]}?" if close else f"Known here: {', '.join(self._known)}."
                raise WorkloadError(f"there is no parameter {name} here. {hint}")
