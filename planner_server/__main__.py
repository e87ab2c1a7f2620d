"""`python -m planner_server --config FILE [--check] [key=value ...]`."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from shared.interrupt import interruptible

if TYPE_CHECKING:
    from fastapi import FastAPI

    from planner_server.config import PlannerConfig


def main(argv: Sequence[str] | None = None) -> int | None:
    """Run the planner server; the exit code."""

    def run() -> int:
        from planner_server.config import PlannerConfig
        from shared.serving.main import run_server

        return run_server("planner-server", PlannerConfig, _app, argv)

    return interruptible("planner-server", run)


def _app(config: "PlannerConfig") -> "FastAPI":
    """Torch is imported with it: only once the configuration is known to be right."""
    from planner_server.app import create_app

    return create_app(config)


if __name__ == "__main__":
    sys.exit(main())
