"""Which checkpoint, or which trajectory stores, a folder on the command line means."""

from pathlib import Path

from shared.errors import UserError
from shared.policy.checkpoints import BEST, META, NAME
from shared.schemas.base import ROLES

STORE = "trajectories.sqlite"


def role_folders(folder: Path, role: str | None, part: str) -> list[Path]:
    """The servers' folders in `folder`, or that one itself, that have `part`; of one role, if it is given."""
    if (folder / part).exists():
        return [folder]
    return [folder / name for name in ROLES if role in (None, name) and (folder / name / part).exists()]


def find_checkpoint(folder: Path, role: str | None, name: str | None) -> Path:
    """The checkpoint that is meant: the folder itself, or one of its role's, by default the best, else the last.

    UserError: there is none, or it is not clear which.
    """
    if (folder / META).is_file():
        if name is not None:
            raise UserError(f"{folder} is a checkpoint by itself: --checkpoint has no use")
        return folder
    owners = role_folders(folder, role, "checkpoints")
    if not owners:
        raise UserError(f"{folder} is no checkpoint, and no folder of a run or of a server that has some")
    if len(owners) > 1:
        raise UserError(f"{folder} has checkpoints of both roles: --role planner or --role executor")
    return _named(owners[0] / "checkpoints", name)


def _named(folder: Path, name: str | None) -> Path:
    steps = {int(found[1]): path for path in folder.iterdir() if (found := NAME.fullmatch(path.name))}
    whole = {step: path for step, path in steps.items() if (path / META).is_file()}
    best = (folder / BEST).read_text().strip() if (folder / BEST).is_file() else None
    if name in (None, BEST) and best is not None and (folder / best / META).is_file():
        return folder / best
    if name in (None, "latest") and whole:
        return whole[max(whole)]
    if name is not None and (folder / name / META).is_file() and NAME.fullmatch(name):
        return folder / name
    listed = ", ".join(whole[step].name for step in sorted(whole)) or "none"
    raise UserError(f"{folder} has no checkpoint {name or ''}; it has: {listed}")


def find_stores(folder: Path, role: str | None) -> list[Path]:
    """The trajectory stores in a run's or a server's folder; UserError where there is none."""
    stores = [owner / STORE for owner in role_folders(folder, role, STORE)]
    if not stores:
        raise UserError(f"{folder} has no {STORE}{f' of the {role}' if role else ''}: it is no folder of a run")
    return stores
