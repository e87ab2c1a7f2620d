"""The OpenAPI documents of the three services: write them to docs/openapi/, or with --check say whether they differ."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from fastapi import FastAPI

from executor_server.app import create_app as executor
from planner_server.app import create_app as planner
from shared.http.admission import AdmissionConfig
from shared.http.openapi import document
from sync_service.app import create_app as sync
from sync_service.config import SyncConfig

FOLDER = Path(__file__).parent
UNUSED: Any = SimpleNamespace(run="any", folder=FOLDER, keys_file=None, admission=AdmissionConfig())


def apps() -> dict[str, FastAPI]:
    """The three, none of them started."""
    nowhere = SyncConfig(database_url="postgresql+psycopg://nobody@nowhere/none")
    return {"sync": sync(nowhere), "planner": planner(UNUSED), "executor": executor(UNUSED)}


def main(check: bool) -> int:
    """Write or compare; exit code 1 where a document that is committed is not what the code says."""
    stale = []
    for name, app in apps().items():
        file, text = FOLDER / f"{name}.json", json.dumps(document(app), indent=1, ensure_ascii=False) + "\n"
        if not check:
            file.write_text(text)
        elif not file.exists() or file.read_text() != text:
            stale.append(file.name)
    if stale:
        print(f"docs/openapi: {', '.join(stale)} differ from the code; run make openapi", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
