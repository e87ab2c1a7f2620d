"""The rows that every side trains on, and their file. Standard library only: another project's interpreter reads it."""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

WARM_PROMPT, WARM_SAMPLED = 2, 4


@dataclass(frozen=True)
class Row:
    """A distinct row; `mask` is 1 on sampled tokens, `logprobs` are those at sampling, 0.0 where the mask is 0."""

    id: str
    token_ids: list[int]
    mask: list[int]
    advantage: float
    multiplicity: float
    logprobs: list[float]


def warm_up(rows: list[Row]) -> list[Row]:
    """As many rows, of a few tokens and without an advantage: a step on them changes no weight."""
    length, mask = WARM_PROMPT + WARM_SAMPLED, [0] * WARM_PROMPT + [1] * WARM_SAMPLED
    return [
        replace(row, token_ids=row.token_ids[:length], mask=mask, logprobs=[-1.0 * m for m in mask], advantage=0.0)
        for row in rows
    ]


def copied(rows: list[Row]) -> list[Row]:
    """The same batch with each copy as a row of its own."""
    return [
        replace(row, id=f"{row.id}-{copy}", multiplicity=1.0) for row in rows for copy in range(int(row.multiplicity))
    ]


def tokens(rows: list[Row]) -> int:
    """Tokens that go through the model, padding apart."""
    return sum(len(row.token_ids) for row in rows)


def write(rows: list[Row], file: Path) -> None:
    """For the sides to read."""
    file.write_text(json.dumps([asdict(row) for row in rows]))


def read(file: Path) -> list[Row]:
    """What `write` wrote."""
    return [Row(**row) for row in json.loads(file.read_text())]
