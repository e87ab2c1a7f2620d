"""Role keys: their text form, the hash that is kept of each, and the ring of those that are live.

A key is written `tandem_<id>_<secret>`. The id is public: it names the key in lists, in logs and in the audit. Of the
text only the SHA-256 is kept. The secret is 256 random bits, so nobody finds it from its hash by trying; a slow hash,
made for passwords, would only make each request slow.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field

from shared.schemas.base import KeyRole

FORM = re.compile(r"tandem_([0-9a-f]{12})_([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class Key:
    """A key without its secret: the `key` id, what it may do, the one `run` that it is bound to (None: every run)."""

    key: str
    role: KeyRole
    run: str | None
    hash: bytes = field(repr=False)


def new_key(role: KeyRole, run: str | None = None) -> tuple[str, Key]:
    """A fresh key: its text, which is shown once, and what is kept of it."""
    id = secrets.token_hex(6)
    text = f"tandem_{id}_{secrets.token_hex(32)}"
    return text, Key(id, role, run, _hash(text))


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


class KeyRing:
    """The keys that are live. Any number per role: a new one is added before the old one is revoked."""

    def __init__(self, keys: Iterable[Key] = ()) -> None:
        self._keys = {key.key: key for key in keys}

    def find(self, text: str) -> Key | None:
        """The live key that `text` is; hashes are compared in constant time."""
        form = FORM.fullmatch(text)
        key = self._keys.get(form[1]) if form else None
        return key if key and hmac.compare_digest(_hash(text), key.hash) else None

    def named(self, id: str) -> Key | None:
        """The live key of this id: whoever asks has not shown it."""
        return self._keys.get(id)
