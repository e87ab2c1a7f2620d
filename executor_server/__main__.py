"""`python -m executor_server --config FILE [--check] [key=value ...]`."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from shared.interrupt import interruptible

if TYPE_CHECKING:
    from fastapi import FastAPI

    from executor_server.config import ExecutorConfig


def main(argv: Sequence[str] | None = None) -> int | None:
    """Run the executor server; the exit code."""

    def run() -> int:
        from executor_server.config import ExecutorConfig
        from shared.serving.main import run_server

        return run_server("executor-server", ExecutorConfig, _app, argv)

    return interruptible("executor-server", run)


def _app(config: "ExecutorConfig") -> "FastAPI":
    """Torch is imported with it: only once the configuration is known to be right."""
    from executor_server.app import create_app

    return create_app(config)


if __name__ == "__main__":
    sys.exit(main())
