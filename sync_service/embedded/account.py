"""Which account the embedded servers run under: our own, but never root, which Postgres refuses."""

import os
import pwd
import stat
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Account:
    """`uid` and `gid` to run under; `switch` says that they differ from our own."""

    uid: int
    gid: int
    switch: bool

    def make_folder(self, path: Path, mode: int = 0o700) -> Path:
        """Make the folder `path` and give it to this account."""
        path.mkdir(parents=True, exist_ok=True)
        if self.switch:
            os.chown(path, self.uid, self.gid)
        path.chmod(mode)
        return path

    def can_enter(self, path: Path) -> bool:
        """Whether this account can walk down to `path`: every folder on the way lets others through."""
        if not self.switch:
            return True
        folders = (folder.stat() for folder in path.resolve().parents)
        return all(f.st_mode & stat.S_IXOTH or f.st_uid == self.uid for f in folders)

    def popen(self) -> dict:
        """The arguments of Popen that switch to this account."""
        return {"user": self.uid, "group": self.gid, "extra_groups": []} if self.switch else {}


def server_account() -> Account:
    """Ourselves, or `nobody` where we are root."""
    if os.geteuid() != 0:
        return Account(os.geteuid(), os.getegid(), switch=False)
    nobody = pwd.getpwnam("nobody")
    return Account(nobody.pw_uid, nobody.pw_gid, switch=True)
