"""Times as people write them."""

from datetime import UTC, datetime, timedelta

import pytest

from scheduler_plugin.cli.main import UserError
from scheduler_plugin.cli.when import moment, span

NOW = datetime(2026, 1, 31, 14, 5, tzinfo=UTC)


def test_spans_and_moments() -> None:
    assert (span("90s"), span("1h30m"), span("2d")) == (90, 5400, 172800)
    assert moment("10m", now=NOW) == NOW - timedelta(minutes=10)
    assert moment("2h", now=NOW, future=True) == NOW + timedelta(hours=2)
    assert moment("2026-01-31T14:05:00Z") == NOW
    clock = f"{NOW.astimezone():%H:%M}"
    assert moment(clock, now=NOW) == NOW
    assert moment(clock, now=NOW, future=True) == NOW + timedelta(days=1)


@pytest.mark.parametrize("text", ["soon", "25:99", "10 minutes"])
def test_what_is_no_time_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UserError, match="write 14:05"):
        moment(text)
