"""`python -m sync_service`: see `sync_service/command.py`."""

import sys
from collections.abc import Sequence

from shared.interrupt import interruptible


def main(argv: Sequence[str] | None = None) -> int | None:
    """Run the command; the exit code."""

    def run() -> int:
        from sync_service import command

        return command.main(argv)

    return interruptible("sync_service", run)


if __name__ == "__main__":
    sys.exit(main())
