"""Trajectories as lines of JSON, from the stores of a run's servers: tokens, log-probs, text, and what is known."""

import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from shared.errors import UserError, from_os_error
from shared.policy.records import COLUMNS, connect, unpack

SELECT = f"SELECT {COLUMNS} FROM trajectories ORDER BY seq"  # noqa: S608 constants


def count(stores: Sequence[Path]) -> int:
    """How many trajectories there are."""
    return sum(next(_rows(store, "SELECT count(*) FROM trajectories"))[0] for store in stores)


def export_trajectories(
    stores: Sequence[Path], to: Path, fates: Mapping[str, dict[str, Any]], advance: Callable[[int], None]
) -> int:
    """Write all of them to the new file `to`, as a whole or not at all; how many. `fates` is laid over each by its id.

    UserError: `to` is there already, or a store is none.
    """
    if to.exists():
        raise UserError(f"{to} exists; --to is a new file")
    beside, written = to.with_name(f".partial-{to.name}"), 0
    try:
        with beside.open("w", encoding="ascii") as out:
            for line in lines(stores, fates):
                out.write(json.dumps(line, allow_nan=False) + "\n")
                written += 1
                advance(1)
            out.flush()
            os.fsync(out.fileno())
        beside.rename(to)
    except OSError as error:
        raise from_os_error(error) from None
    finally:
        beside.unlink(missing_ok=True)
    return written


def lines(stores: Sequence[Path], fates: Mapping[str, dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """One for each trajectory, in the order in which its server stored it; one below another has the fate of that."""
    for store in stores:
        whole: dict[str, str] = {}
        for record in _rows(store, SELECT):
            trajectory = unpack(record)
            whole |= dict.fromkeys(trajectory.parts, trajectory.id)  # they are stored after it
            yield {
                "id": trajectory.id,
                "run": trajectory.run,
                "role": trajectory.role,
                "version": trajectory.version.model_dump(),
                "token_ids": trajectory.token_ids,
                "mask": trajectory.mask,
                "logprobs": trajectory.logprobs,
                "messages": trajectory.messages,
                "facts": trajectory.facts,
                **fates.get(whole.pop(trajectory.id, trajectory.id), {}),
            }


def _rows(store: Path, statement: str) -> Iterator[Any]:
    connection = connect(store, write=False)
    try:
        yield from connection.execute(statement)
    except sqlite3.DatabaseError as error:
        raise UserError(f"{store} is not a trajectory store: {error}") from None
    finally:
        connection.close()
