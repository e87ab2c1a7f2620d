"""What a browser holds after a login: a key sealed under its own stored hash, for a bounded time.

The cookie is `<id>.<expires>.<nonce>.<sealed>`, where `sealed` is the key's secret, XORed with
HMAC-SHA256(hash of the key, "<id>.<expires>.<nonce>"). To read it the service needs the hash, which it has for live
keys only, and then looks the key up as any other. So:

* a cookie alone is no key: without the hash its secret cannot be read, nor used in `Authorization`;
* a hash alone is no session: files of hashes hold no secret, and must not become one;
* another expiry gives another pad, thus a wrong key: it cannot be prolonged;
* it is refused when its key is revoked, and holds on every process of the service, with no table of sessions.
"""

import hashlib
import hmac
import re
import secrets
import time
from typing import Protocol

from shared.http.keys import FORM, Key

LIFE_S = 12 * 3600
_COOKIE = re.compile(r"(([0-9a-f]{12})\.([0-9]{1,12})\.[0-9a-f]{32})\.([0-9a-f]{64})")


class Ring(Protocol):
    """Where live keys are found, by their text and by their public id."""

    def find(self, text: str) -> Key | None:
        """The live key that `text` is."""
        ...

    def named(self, id: str) -> Key | None:
        """The live key of this id."""
        ...


def seal(ring: Ring, text: str, now: float | None = None) -> str | None:
    """The cookie for the live key that `text` is; None where it is none."""
    key, form = ring.find(text), FORM.fullmatch(text)
    if key is None or form is None:
        return None
    expires = int((time.time() if now is None else now) + LIFE_S)
    head = f"{key.key}.{expires}.{secrets.token_hex(16)}"
    return f"{head}.{_masked(key, head, form[2])}"


def unseal(ring: Ring, cookie: str, now: float | None = None) -> Key | None:
    """The live key whose session this is; None where it is none, or is over."""
    form = _COOKIE.fullmatch(cookie)
    if form is None or int(form[3]) <= (time.time() if now is None else now):
        return None
    key = ring.named(form[2])
    return ring.find(f"tandem_{key.key}_{_masked(key, form[1], form[4])}") if key else None


def _masked(key: Key, head: str, secret: str) -> str:
    """`secret` under the pad of this head; the same again gives it back."""
    pad = hmac.digest(key.hash, head.encode(), hashlib.sha256)
    return bytes(a ^ b for a, b in zip(bytes.fromhex(secret), pad, strict=True)).hex()
