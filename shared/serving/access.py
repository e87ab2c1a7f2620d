"""Who may call a role's server: keys from a file of hashes, for the run that it works for."""

from fastapi import FastAPI

from shared.http.guard import Guard, guarded
from shared.http.key_file import FileRing
from shared.serving.config import ServerConfig


def guard_server(app: FastAPI, config: ServerConfig) -> None:
    """Guard every route of `app`; call it last. UserError where the file of keys cannot be read."""
    ring = FileRing(config.keys_file) if config.keys_file else None
    guarded(app, Guard(ring, config.run))
