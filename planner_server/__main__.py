"""`python -m planner_server --config FILE [--check] [key=value ...]`."""

import sys
from collections.abc import Sequence

from planner_server.config import PlannerConfig
from shared.serving.main import run_server


def main(argv: Sequence[str] | None = None) -> int:
    """Run the planner server; the exit code."""
    from planner_server.app import create_app

    return run_server("planner-server", PlannerConfig, create_app, argv)


if __name__ == "__main__":
    sys.exit(main())
