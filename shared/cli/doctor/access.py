"""Keys: their files, what the key opens at the sync service, and what only a key can see there."""

import re
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from shared.cli.doctor.finding import Finding, fail, ok, warn
from shared.cli.doctor.servers import apart
from shared.cli.options import read_key
from shared.cli.server import Server
from shared.errors import Forbidden, NotFound, TandemError, Unauthorized, UserError
from shared.http.key_file import read_keys
from shared.http.keys import KeyRing
from shared.ids import new_id
from shared.schemas.base import Page
from shared.schemas.run import RunView
from shared.schemas.verdict import Verdict
from shared.schemas.views import DeliveryRow

NEW_KEY = "make a new one: tandem keys create"
DOORBELL = re.compile(r"^tandem_sync_doorbell_connected (\S+)$", re.MULTILINE)


def key_files(key_file: Path | None, hashes: Path | None) -> Iterator[Finding]:
    """The file of the key, which only its owner may read, and the file of hashes, which only its owner may write."""
    text = None
    if key_file is not None:
        try:
            text = read_key(key_file)
        except UserError as error:
            return (yield fail("key file", error.detail, NEW_KEY))
        yield _mode("key file", key_file, stat.S_IRWXG | stat.S_IRWXO, "600")
    if hashes is not None:
        try:
            keys = read_keys(hashes)
        except UserError as error:
            return (yield fail("hashes", error.detail, "write the lines of `tandem keys create` into it"))
        yield _mode("hashes", hashes, stat.S_IWGRP | stat.S_IWOTH, "644")
        if text is not None:
            known = KeyRing(keys).find(text) is not None
            add = f"add its line to {hashes}"
            yield ok("hashes", "the key is among them") if known else fail("hashes", "the key is not in them", add)


def _mode(what: str, path: Path, forbidden: int, mode: str) -> Finding:
    if path.stat().st_mode & forbidden:
        return warn(what, f"{path} is open to others ({stat.filemode(path.stat().st_mode)})", f"chmod {mode} {path}")
    return ok(what, f"{path}, {stat.filemode(path.stat().st_mode)}")


def access(server: Server) -> Iterator[Finding]:
    """What the key opens, the database's clock by a run's verdict, and the doorbell."""
    try:
        role = role_of(server)
    except Unauthorized as error:
        return (yield fail("key", error.detail, f"{NEW_KEY}, or the one that the service knows"))
    except TandemError as error:
        return (yield fail("key", error.detail, "see the sync service's log"))
    yield ok("key", f"opens the calls of role {role}" if server.has_key else "none is needed: loopback only")
    if role in ("operator", "viewer"):
        yield from _inside(server)


def role_of(server: Server) -> str:
    """The role of the key. Nothing changes: an operator's key might requeue, if there were such a delivery."""
    try:
        server.post(f"/v1/deliveries/{new_id()}:requeue", DeliveryRow)
    except NotFound:
        return "operator"
    except Forbidden as error:
        found = re.search(r"a key of role (\w+)", error.detail)
        return found[1] if found else "unknown"
    return "unknown"


def _inside(server: Server) -> Iterator[Finding]:
    runs = server.get("/v1/runs", Page[RunView], limit=1).items
    yield ok("runs", runs[0].run if runs else "none yet")
    if runs:
        verdict = server.get(f"/v1/runs/{runs[0].run}/verdict", Verdict)
        yield apart("database: clock", datetime.fromisoformat(verdict.at), datetime.now(UTC))
    found = DOORBELL.search(server.call("GET", "/metrics").text)
    if found and float(found[1]) == 1:
        yield ok("redis", "it wakes the waiters")
    else:
        yield warn("redis", "none is connected: waiters poll", "give the sync service --redis-url, if steps are short")
