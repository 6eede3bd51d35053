"""Times and spans as people write them."""

import re
from datetime import UTC, datetime, timedelta

from scheduler_plugin.cli.main import UserError

_SPAN = re.compile(r"(\d+(?:\.\d+)?)(s|m|h|d)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def span(text: str) -> float:
    """Seconds of `90s`, `5m`, `1h30m`."""
    parts = _SPAN.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise UserError(f"`{text}` is not a span of time; write 90s, 5m, 1h30m or 2d.", exit_code=2)
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
        words = "write 14:05, 2026-01-31T14:05:00Z, or a span like 10m."
        raise UserError(f"`{text}` is not a time; {words}", exit_code=2) from None
    return found if found.tzinfo else found.astimezone()
