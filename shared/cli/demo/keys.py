"""The keys of one run on one machine: made once, in the run's folder, each bound to the run."""

from pathlib import Path

from shared.http.key_file import line_of, write_key
from shared.http.keys import new_key
from shared.schemas.base import KeyRole

ROLES: tuple[KeyRole, ...] = ("planner", "executor", "operator", "viewer")
"""The servers, the conductor, and whoever watches."""


class RunKeys:
    """`<folder>/keys`: a file for each key, which only its owner may read, and `hashes`, for the servers."""

    def __init__(self, folder: Path, run: str) -> None:
        self._folder = folder.resolve() / "keys"
        self._run = run
        self.hashes = self._folder / "hashes"

    def file(self, role: KeyRole) -> Path:
        """Where the key of `role` is."""
        return self._folder / f"{role}.key"

    def text(self, role: KeyRole) -> str:
        """The key of `role`."""
        return self.file(role).read_text().strip()

    def make(self) -> None:
        """Make the keys that are not there yet; a run that is resumed has them. The hashes come last."""
        if self.hashes.exists():
            return
        self._folder.mkdir(mode=0o700, exist_ok=True)
        made = {role: new_key(role, self._run) for role in ROLES}
        for role, (text, _) in made.items():
            self.file(role).unlink(missing_ok=True)  # of a start that was killed in between
            write_key(self.file(role), text)
        beside = self.hashes.with_suffix(".new")
        beside.write_text("".join(f"{line_of(key)}\n" for _, key in made.values()))
        beside.replace(self.hashes)
