"""Keys for a harness: put into the database before the service starts, as an operator's command does."""

import psycopg

from shared.http.keys import new_key
from shared.schemas.base import KEY_ROLES, KeyRole

INSERT = "INSERT INTO keys (key, role, run, hash) VALUES (%s, %s, %s, %s)"


def issue(conninfo: str) -> dict[KeyRole, str]:
    """The text of a new key for each role, for every run."""
    made = {role: new_key(role) for role in KEY_ROLES}
    with psycopg.connect(conninfo) as database:
        for _, key in made.values():
            database.execute(INSERT, (key.key, key.role, key.run, key.hash))
    return {role: text for role, (text, _) in made.items()}
