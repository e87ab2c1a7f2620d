"""One thing that is worth saying of a run."""

from dataclasses import dataclass

from shared.schemas.verdict import Health


@dataclass(frozen=True, slots=True)
class Finding:
    """`state` is what the run is if nothing worse is found; `advice` what an operator may do."""

    state: Health
    text: str
    advice: str = ""
