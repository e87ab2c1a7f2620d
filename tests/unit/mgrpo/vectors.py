"""The right values, computed apart from this code (tests/vectors)."""

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "vectors"


def load(name: str) -> Any:
    return json.loads((FOLDER / f"{name}.json").read_text())
