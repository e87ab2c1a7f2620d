"""`python -m executor_server --config FILE [--check] [key=value ...]`."""

import sys
from collections.abc import Sequence

from fastapi import FastAPI

from executor_server.config import ExecutorConfig
from shared.serving.main import run_server


def main(argv: Sequence[str] | None = None) -> int:
    """Run the executor server; the exit code."""
    return run_server("executor-server", ExecutorConfig, _app, argv)


def _app(config: ExecutorConfig) -> FastAPI:
    """Torch is imported with it: only once the configuration is known to be right."""
    from executor_server.app import create_app

    return create_app(config)


if __name__ == "__main__":
    sys.exit(main())
