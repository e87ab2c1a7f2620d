"""The command of the sync service: serve, on an embedded database or on one that is given; `migrate` it; its `keys`."""

import asyncio
import contextlib
import gc
import logging
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Generator, Sequence
from pathlib import Path

import structlog
from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError, OperationalError

from shared.config import override, parse
from shared.errors import TandemError, UserError
from shared.http.loopback import check_host
from shared.http.serve import bind, configure_logs, serve
from sync_service import key_commands, migrate
from sync_service.app import create_app
from sync_service.config import SyncConfig
from sync_service.embedded import Services, embedded

log = structlog.get_logger()

DATABASE_URL = "TANDEM_DATABASE_URL"
INTERRUPTED = 130
GC_THRESHOLDS = (50_000, 20, 20)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; a user's mistake is one line on stderr and exit code 2, a loop that died is exit code 1."""
    code = 0
    try:
        arguments = _parser().parse_args(_with_command(sys.argv[1:] if argv is None else argv))
        if arguments.command == "serve":
            check_host(arguments.auth, arguments.host)
            bind(arguments.host, arguments.port).close()  # say so before a database is started for nothing
        with _services(arguments) as services:
            if arguments.command == "serve":
                code = _serve(arguments, services)
            elif arguments.command == "migrate":
                _migrate(services.database_url, arguments.down_to)
            else:
                key_commands.run(arguments, services.database_url)
    except TandemError as error:
        print(f"sync_service: {error.detail}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:  # before it served: the database, if it is ours, has been stopped
        return INTERRUPTED
    return code


def _with_command(words: Sequence[str]) -> list[str]:
    """`serve` is what is meant where no command is named."""
    named = words and (not words[0].startswith("-") or words[0] in ("-h", "--help"))
    return list(words) if named else ["serve", *words]


def _parser() -> ArgumentParser:
    parser = ArgumentParser("sync_service", description="The sync service of Tandem.")
    commands = parser.add_subparsers(dest="command", required=True)
    serving = commands.add_parser("serve", help="serve; what is done where no command is named")
    serving.add_argument("--host", default="127.0.0.1")
    serving.add_argument("--port", type=int, default=8700)
    redis = serving.add_mutually_exclusive_group()
    redis.add_argument("--redis-url", help="an existing Redis or Valkey; without one, waiters poll")
    redis.add_argument("--redis-url-file", type=Path, metavar="FILE", help="holds that URL, with its password")
    serving.add_argument(
        "--auth", choices=("keys", "loopback"), default="keys", help="loopback: no keys, and only this machine can call"
    )
    serving.add_argument("--keys-file", type=Path, metavar="FILE", help="key hashes to keep in the database at start")
    serving.add_argument("overrides", nargs="*", metavar="key=value", help="settings, such as keep_runs_days=90")
    keys = commands.add_parser("keys", help="add, keep, list and revoke keys")
    migrating = commands.add_parser("migrate", help="bring a database to this schema")
    migrating.add_argument("--down-to", metavar="REVISION", help="undo what came after it, for an older version")
    for each in (serving, migrating):
        _add_database(each)
    for each in key_commands.add_to(keys):
        _add_database(each)
    return parser


def _add_database(parser: ArgumentParser) -> None:
    database = parser.add_mutually_exclusive_group()
    database.add_argument("--embedded", type=Path, metavar="DIR", help="run Postgres and Valkey, data in DIR")
    database.add_argument("--database-url", help=f"an existing Postgres; also from ${DATABASE_URL}")


@contextlib.contextmanager
def _services(arguments: Namespace) -> Generator[Services]:
    """Where the database is: our own for the time of this command, or the user's."""
    redis_url = _redis_url(arguments) if arguments.command == "serve" else None
    if arguments.embedded is None:
        url = arguments.database_url or os.environ.get(DATABASE_URL)
        if not url:
            raise UserError(f"where is the database? pass --embedded DIR or --database-url URL, or set {DATABASE_URL}")
        yield Services(_for_psycopg(url), redis_url)
        return
    with asyncio.Runner() as runner:
        running = embedded(arguments.embedded)
        services = runner.run(running.__aenter__())
        try:
            _migrate(services.database_url)
            yield Services(services.database_url, redis_url or services.redis_url)
        finally:
            runner.run(running.__aexit__(None, None, None))


def _redis_url(arguments: Namespace) -> str | None:
    """What is given, or what stands in the file that is; UserError where it cannot be read."""
    file: Path | None = arguments.redis_url_file
    if file is None:
        return arguments.redis_url
    try:
        return file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise UserError(f"the URL of Redis cannot be read from {file}: {reason}") from None


def _for_psycopg(url: str) -> str:
    """The usual `postgresql://` names the driver that we use. UserError, which does not repeat it, for any other."""
    scheme, separator, rest = url.partition("://")
    if separator and scheme in ("postgres", "postgresql"):
        url = f"postgresql+psycopg://{rest}"
    with contextlib.suppress(ArgumentError, ValueError):
        if make_url(url).drivername == "postgresql+psycopg":
            return url
    raise UserError("the database cannot be used: its URL is no postgresql://USER:PASSWORD@HOST:PORT/DATABASE")


def _migrate(url: str, down_to: str | None = None) -> None:
    logging.getLogger("alembic").setLevel(logging.WARNING)
    try:
        migrate.downgrade(url, down_to) if down_to else migrate.upgrade(url)
    except OperationalError as error:
        reason = str(error.orig).strip().splitlines()[0]
        raise UserError(f"the database cannot be used: {reason}") from None


def _serve(arguments: Namespace, services: Services) -> int:
    configure_logs()
    if arguments.keys_file:
        if arguments.auth == "loopback":
            raise UserError("--keys-file has no use with --auth loopback")
        key_commands.keep_file(arguments.keys_file, services.database_url)
    app = create_app(_configuration(arguments, services))
    _collect_seldom()
    serve(app, arguments.host, arguments.port)
    fault: BaseException | None = getattr(app.state, "fault", None)
    if fault is not None:
        log.error("unexpected", exc_info=fault)
        print(f"sync_service: {type(fault).__name__}: {fault}", file=sys.stderr)
    return 1 if fault else 0


def _configuration(arguments: Namespace, services: Services) -> SyncConfig:
    own = {"auth": arguments.auth, "database_url": services.database_url, "redis_url": services.redis_url}
    settings = override({}, arguments.overrides)
    for name in own.keys() & settings.keys():
        raise UserError(f"{name} is no setting of this command: it has the option --{name.replace('_', '-')}")
    return parse(SyncConfig, {"disk_folder": arguments.embedded or Path(".")} | settings | own)


def _collect_seldom() -> None:
    """A request of many items makes thousands of objects at once, none of them in cycles: look for these less often.

    What is loaded by now stays for good, and is never looked at again.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
