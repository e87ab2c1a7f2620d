"""The reward formulas that a server trains by: in its log when it knows its run, and in its folder for good."""

import json
from pathlib import Path

import structlog

from shared.mgrpo.formula import formulas
from shared.schemas.run import RunSpec

log = structlog.get_logger()
FILE = "reward.json"


def tell_reward(spec: RunSpec, folder: Path) -> None:
    """Say the formula of each role, and keep both in `folder`, beside the checkpoints."""
    found = formulas(spec)
    log.info("reward-formulas", **found)
    (folder / FILE).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
