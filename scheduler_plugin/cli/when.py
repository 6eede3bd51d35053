"""Times and spans as people write them."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from scheduler_plugin.cli.main import UserError

if TYPE_CHECKING:
    from scheduler_plugin.store.database import Database

_SPAN = re.compile(r"(\d+(?:\.\d+)?)(s|m|h|d)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def span(text: str) -> float:
    """Seconds of `90s`, `5m`, `1h30m`."""
    parts = _SPAN.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise UserError(f"`{text}` is not a span of time; write 90s, 5m, 1h30m or 2d.")
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


def moment(text: str, *, now: datetime | None = None, future: bool = False) -> datetime:
    """`14:05`, `14:05:30` (today, local time), `2026-01-31T14:05Z`, or a span: ago, or from now on with `future`."""
    now = now or datetime.now(UTC)
    if _SPAN.match(text):
        length = timedelta(seconds=span(text))
        return now + length if future else now - length
    try:
        if re.fullmatch(r"\d{1,2}:\d{2}(:\d{2})?", text):
            clock = [int(part) for part in text.split(":")]
            today = now.astimezone().replace(hour=clock[0], minute=clock[1], second=0, microsecond=0)
            found = today.replace(second=clock[2]) if len(clock) == 3 else today
            if future and found <= now:
                found += timedelta(days=1)
            return found
        found = datetime.fromisoformat(text)
    except ValueError:
        raise UserError(f"`{text}` is not a time; write 14:05, 2026-01-31T14:05:00Z, or a span like 10m.") from None
    return found if found.tzinfo else found.astimezone()


@contextmanager
def ledger() -> "Iterator[Database]":
    """The database of this installation, closed afterwards; says what to do when it does not answer."""
    from sqlalchemy.exc import DBAPIError

    from scheduler_plugin.services.settings import Settings
    from scheduler_plugin.store.database import Database

    database = Database(Settings.load().database_url)
    try:
        yield database
    except DBAPIError as error:
        first = str(error.orig).strip().splitlines()[0]
        raise UserError(f"the ledger cannot be read ({first}): `freshet up` starts or mends it.") from error
    finally:
        database.close()
