"""Times as the platform writes them: ISO text in UTC, which sorts as it reads."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta


def now() -> str:
    return text_of(datetime.now(UTC))


def text_of(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def at(seconds: float) -> str:
    """The text of a moment that is given in seconds since 1970; its first ten letters are the day."""
    return text_of(datetime.fromtimestamp(seconds, UTC))


def seconds_now() -> float:
    """Seconds since 1970, by the clock of this machine."""
    return float(datetime.now(UTC).timestamp())


def days_ago(days: float) -> str:
    return text_of(datetime.now(UTC) - timedelta(days=days))


def today() -> str:
    return datetime.now(UTC).date().isoformat()


def is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
