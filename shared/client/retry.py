"""Which answers are tried again, and how long the server asks to be left alone before that."""

import random
from email.utils import parsedate_to_datetime

import httpx

from shared.errors import Overloaded, StorageFull, TandemError, Unavailable, from_problem

RETRIED: dict[int, type[TandemError]] = {
    429: Overloaded,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
    507: StorageFull,
}
"""The statuses that may be tried again, and what they mean from a proxy, which knows no problem type of ours."""
SPREAD = 0.2
"""The share of `Retry-After` that is added at random: callers who were refused together do not come back together."""


class TryAgain(Exception):
    """`error` may pass. `after_s` is what the server asks for; None where it asks for nothing."""

    def __init__(self, error: Exception, after_s: float | None = None) -> None:
        super().__init__(str(error))
        self.error = error
        self.after_s = after_s


def raise_for(response: httpx.Response) -> None:
    """TryAgain, or the error of `shared.errors` that the answer stands for; nothing for an answer that is fine."""
    if response.is_success:
        return
    try:
        body = response.json()
    except ValueError:
        body = None
    if not isinstance(body, dict):  # a proxy, or another server
        body = {"detail": f"HTTP {response.status_code}: {' '.join(response.text[:200].split())}"}
    error = from_problem(body, response.status_code)
    if response.status_code not in RETRIED:
        raise error
    if type(error) is TandemError:
        error = RETRIED[response.status_code](error.detail, **error.extra)
    raise TryAgain(error, retry_after_s(response.headers))


def pause_s(asked: TryAgain) -> float | None:
    """How long to wait: never less than the server asked for; None leaves it to the client's own backoff."""
    return None if asked.after_s is None else asked.after_s * (1 + random.uniform(0, SPREAD))


def retry_after_s(headers: httpx.Headers) -> float | None:
    """Seconds, or a date, which is read by the sender's own clock; None where there is none that can be read."""
    value = headers.get("retry-after", "")
    try:
        if value.isascii() and value.isdigit():
            return float(value)
        return max(0.0, (parsedate_to_datetime(value) - parsedate_to_datetime(headers.get("date", ""))).total_seconds())
    except (TypeError, ValueError):
        return None
