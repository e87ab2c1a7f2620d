"""The folder where the embedded servers keep everything: `FOLDER/servers`, or a link to where their account can go.

Root's own files often lie under a folder that nobody else may enter (/root). Postgres does not run as root, so its
data then lie in a folder of /var/tmp, and `FOLDER/servers` is a link to it.
"""

import tempfile
from pathlib import Path

import structlog

from shared.errors import UserError
from sync_service.embedded.account import Account

log = structlog.get_logger()


def server_home(folder: Path, account: Account) -> Path:
    """The same real folder each time for the same `folder`, owned by `account`, which can walk to it.

    UserError where it cannot be made, or is gone.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"the folder {folder} cannot be made: {error.strerror}") from None
    home = folder.resolve() / "servers"
    if home.is_symlink() and not home.exists():
        raise UserError(f"the database of {folder} was in {home.readlink()}, which is gone")
    if not home.exists() and not account.can_enter(home):
        home.symlink_to(tempfile.mkdtemp(prefix="tandem-", dir="/var/tmp"))
        log.info("the database lies elsewhere", folder=str(folder), data=str(home.readlink()))
    return account.make_folder(home.resolve())
