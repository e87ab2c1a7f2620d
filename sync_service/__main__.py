"""`python -m sync_service`: serve on an embedded database or on one that is given; `migrate` brings one up to date."""

import argparse
import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import Generator, Sequence
from pathlib import Path

from sqlalchemy.exc import ArgumentError, OperationalError

from shared.config import parse
from shared.errors import TandemError, UserError
from shared.http.serve import bind, configure_logs, serve
from sync_service import migrate
from sync_service.app import create_app
from sync_service.config import SyncConfig
from sync_service.embedded import Services, embedded

DATABASE_URL = "TANDEM_DATABASE_URL"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; a user's mistake is one line on stderr and exit code 2."""
    try:
        arguments = _parser().parse_args(argv)
        if arguments.command == "serve":
            bind(arguments.host, arguments.port).close()  # say so before a database is started for nothing
        with _services(arguments) as services:
            if arguments.command == "migrate":
                _migrate(services.database_url)
            else:
                _serve(arguments, services)
    except TandemError as error:
        print(f"sync_service: {error.detail}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("sync_service", description="The sync service of Tandem.")
    parser.add_argument("command", nargs="?", choices=("serve", "migrate"), default="serve")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8700)
    database = parser.add_mutually_exclusive_group()
    database.add_argument("--embedded", type=Path, metavar="DIR", help="run Postgres and Valkey, data in DIR")
    database.add_argument("--database-url", help=f"an existing Postgres; also from ${DATABASE_URL}")
    parser.add_argument("--redis-url", help="an existing Redis or Valkey; without one, waiters poll")
    return parser


@contextlib.contextmanager
def _services(arguments: argparse.Namespace) -> Generator[Services]:
    """Where the database is: our own for the time of this command, or the user's."""
    if arguments.embedded is None:
        url = arguments.database_url or os.environ.get(DATABASE_URL)
        if not url:
            raise UserError(f"where is the database? pass --embedded DIR or --database-url URL, or set {DATABASE_URL}")
        yield Services(_for_psycopg(url), arguments.redis_url)
        return
    with asyncio.Runner() as runner:
        running = embedded(arguments.embedded)
        services = runner.run(running.__aenter__())
        try:
            yield Services(services.database_url, arguments.redis_url or services.redis_url)
        finally:
            runner.run(running.__aexit__(None, None, None))


def _for_psycopg(url: str) -> str:
    """The usual `postgresql://` names the driver that we use."""
    scheme, separator, rest = url.partition("://")
    return f"postgresql+psycopg://{rest}" if separator and scheme in ("postgres", "postgresql") else url


def _migrate(url: str) -> None:
    try:
        migrate.upgrade(url)
    except (OperationalError, ArgumentError) as error:
        reason = str(getattr(error, "orig", error)).strip().splitlines()[0]
        raise UserError(f"the database cannot be used: {reason}") from None


def _serve(arguments: argparse.Namespace, services: Services) -> None:
    configure_logs()
    logging.getLogger("alembic").setLevel(logging.WARNING)
    if arguments.embedded is not None:
        _migrate(services.database_url)
    tables = {
        "database_url": services.database_url,
        "redis_url": services.redis_url,
        "disk_folder": arguments.embedded or Path("."),
    }
    serve(create_app(parse(SyncConfig, tables)), arguments.host, arguments.port)


if __name__ == "__main__":
    sys.exit(main())
