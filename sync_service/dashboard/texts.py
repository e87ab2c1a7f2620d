"""Numbers and times as people read them: the filters of the templates."""

from datetime import UTC, datetime

FILTERS = ("whole", "compact", "fixed", "percent", "span", "age", "clock")
MINUTE, HOUR, DAY = 60, 3600, 86_400


def whole(value: int) -> str:
    """12,345"""
    return f"{value:,}"


def compact(value: float) -> str:
    """12.3k, 4.5M"""
    for bound, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= bound:
            return f"{value / (1e3 if unit == 'k' else bound):.1f}{unit}"
    return f"{value:,.0f}"


def fixed(value: float | None, digits: int = 2) -> str:
    """0.25; a dash for what is not known."""
    return "–" if value is None else f"{value:.{digits}f}"


def percent(value: float | None) -> str:
    """A share as 25%; a dash for what is not known."""
    return "–" if value is None else f"{value:.0%}"


def span(seconds: float | None) -> str:
    """A time: 0.4 s, 94 s, 12 min, 3 h 20 min, 2 d 4 h; a dash for what is not known."""
    if seconds is None:
        return "–"
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 2 * MINUTE:
        return f"{seconds:.0f} s"
    if seconds < HOUR:
        return f"{seconds / MINUTE:.0f} min"
    larger, smaller, units = (HOUR, MINUTE, ("h", "min")) if seconds < DAY else (DAY, HOUR, ("d", "h"))
    first, rest = divmod(int(seconds), larger)
    return f"{first} {units[0]} {rest // smaller} {units[1]}" if rest // smaller else f"{first} {units[0]}"


def age(since: str, now: str) -> str:
    """From one ISO time to another; the page's script counts on from there."""
    seconds = (datetime.fromisoformat(now) - datetime.fromisoformat(since)).total_seconds()
    return span(float(int(max(0.0, seconds)))) if seconds >= 10 else f"{max(0, int(seconds))} s"


def clock(at: str) -> str:
    """An ISO time to the second, in UTC, whatever the zone of the database."""
    return datetime.fromisoformat(at).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
