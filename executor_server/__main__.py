"""`python -m executor_server --config FILE [--check] [key=value ...]`."""

import sys
from collections.abc import Sequence

from executor_server.config import ExecutorConfig
from shared.serving.main import run_server


def main(argv: Sequence[str] | None = None) -> int:
    """Run the executor server; the exit code."""
    from executor_server.app import create_app

    return run_server("executor-server", ExecutorConfig, create_app, argv)


if __name__ == "__main__":
    sys.exit(main())
