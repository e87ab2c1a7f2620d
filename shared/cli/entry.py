"""The first lines of the `tandem` command."""

import sys

from shared.interrupt import interruptible


def main() -> None:
    """Run the command line."""

    def run() -> None:
        from shared.cli.main import main as command

        command()

    sys.exit(interruptible("tandem", run))


if __name__ == "__main__":
    main()
