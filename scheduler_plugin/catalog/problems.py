"""Problems are collected, not raised one by one: a person mends a catalog in one round.

Every message names the file, the object, the field and the culprit, and ends with the way out.
"""

import difflib
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

#: Suggestions compare a word with every name; after this many words a catalog is broken in a way no spelling mends.
MOST_SUGGESTIONS = 50


class CatalogError(Exception):
    """The catalog cannot be used; `problems` holds every reason."""

    def __init__(self, problems: Collection[str]) -> None:
        self.problems = tuple(problems)
        if len(self.problems) == 1:
            super().__init__(self.problems[0])
        else:
            super().__init__(f"The catalog has {len(self.problems)} problems:\n  " + "\n  ".join(self.problems))


def shown(path: Path) -> str:
    """A path as a person would type it: relative where it is below the working folder."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative


@dataclass(slots=True)
class Problems:
    """The problems found so far."""

    found: list[str] = field(default_factory=list)
    _suggestions: int = 0

    def add(self, where: str, what: str) -> None:
        self.found.append(f"{where}{what}")

    def hint(self, word: object, known: Collection[str], otherwise: str | None = None) -> str:
        """` Did you mean ...?`, or the names there are."""
        self._suggestions += 1
        if self._suggestions <= MOST_SUGGESTIONS:
            close = difflib.get_close_matches(str(word).lower(), known, n=1)
            if close:
                return f" Did you mean `{close[0]}`?"
        if otherwise is not None:
            return f" {otherwise}"
        return f" There is {', '.join(f'`{name}`' for name in sorted(known))}." if 0 < len(known) <= 20 else ""

    def raise_if_any(self) -> None:
        if self.found:
            raise CatalogError(self.found)


class _Required:
    """Marks a field that has no default."""


REQUIRED = _Required()


@dataclass(slots=True)
class Fields:
    """One mapping of the file, read field by field; `done` reports the keys nobody asked for."""

    problems: Problems
    #: "include/warehouse.yml: feed flights"
    where: str
    values: Mapping[Any, Any]
    _asked: list[str] = field(default_factory=list)

    def take(self, key: str, parse: Callable[[Any], Any], default: Any = REQUIRED) -> Any:
        """The parsed value or the default; None after a problem. A key without a value counts as absent."""
        self._asked.append(key)
        value = self.values.get(key)
        if value is None:
            if default is REQUIRED:
                self.problems.add(self.where, f" has no `{key}`, which is required.")
                return None
            return default
        try:
            return parse(value)
        except ValueError as error:
            self.problems.add(self.where, f", `{key}`: {error}")
            return None

    def done(self) -> None:
        for key in self.values:
            if key not in self._asked:
                hint = self.problems.hint(key, self._asked)
                self.problems.add(self.where, f" has an unknown field `{key}`.{hint}")


def mapping(value: Any) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{kind(value)} is not a mapping. Write `name: value` lines below it.")
    return value


def kind(value: Any) -> str:
    """A value as it is quoted in a message."""
    if isinstance(value, list):
        return "a list"
    if isinstance(value, Mapping):
        return "a mapping"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f"`{text if len(text) <= 60 else text[:57] + '...'}`"
