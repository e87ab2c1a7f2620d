"""Teeth: take one safeguard out of a copy of the code, and a named test fails. `python -m tests.faults.teeth`.

A test that passes without what it guards proves nothing. Each safeguard here is taken out of a copy of the tree, never
of the tree itself; the test must pass before, and fail (not merely break) after.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.faults.servers import ROOT

TREE = ("sync_service", "shared", "tests", "pyproject.toml")
FAULTS = "tests/faults"
LIMIT_S = 300


@dataclass(frozen=True, slots=True)
class Safeguard:
    """What is taken out: each `old` in `file` becomes `new`; `test` must then fail."""

    name: str
    file: str
    changes: tuple[tuple[str, str], ...]
    test: str


SCHEMA = "sync_service/migrations/versions/m0001_first.sql"
SAFEGUARDS = (
    Safeguard(
        "epoch check",
        "sync_service/operations/streams.py",
        (("if epoch != stream.epoch:", "if False:"),),
        f"{FAULTS}/test_streams.py::test_an_ack_of_an_epoch_that_is_over_is_refused",
    ),
    Safeguard(
        "finite CHECK",
        SCHEMA,
        (("CHECK (r_correct >= 0 AND r_correct <= 1)", "CHECK (true)"),),
        f"{FAULTS}/test_constraints.py::test_a_reward_that_would_poison_a_batch",
    ),
    Safeguard(
        "unique key of a group's place",
        SCHEMA,
        (("    CONSTRAINT groups_place UNIQUE (run, step, index),\n", ""),),
        f"{FAULTS}/test_constraints.py::test_of_two_who_open_one_place_at_once_one_does",
    ),
    Safeguard(
        "resume rule",
        "sync_service/operations/resume.py",
        (("await store.deliveries.reopen(connection, name, role, request.step)", "[]"),),
        f"{FAULTS}/test_surviving_weights.py::test_each_batch_is_in_the_weights_once[confirm]",
    ),
)


def copy_tree(folder: Path) -> Path:
    """The parts of the tree that the tests need."""
    for name in TREE:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, folder / name)
    return folder


def remove(safeguard: Safeguard, tree: Path) -> None:
    """Take a safeguard out of a copy; ValueError where it is not where it was."""
    path = tree / safeguard.file
    text = path.read_text()
    for old, new in safeguard.changes:
        if text.count(old) != 1:
            raise ValueError(f"{safeguard.name}: {old!r} is {text.count(old)} times in {safeguard.file}")
        text = text.replace(old, new)
    path.write_text(text)


def failing(tests: tuple[str, ...], tree: Path) -> set[str]:
    """Which of `tests` fail in `tree`; RuntimeError where pytest itself does."""
    command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-rf", "-p", "no:cacheprovider", *tests]
    result = subprocess.run(command, cwd=tree, capture_output=True, text=True, timeout=LIMIT_S)
    if result.returncode not in (0, 1):
        raise RuntimeError(result.stdout[-4000:] + result.stderr[-1000:])
    return {line.split()[1] for line in result.stdout.splitlines() if line.startswith("FAILED ")}


def main() -> int:
    """Every safeguard in turn; exit code 1 where a test has no teeth."""
    argparse.ArgumentParser("teeth", description=__doc__).parse_args()
    with tempfile.TemporaryDirectory(prefix="tandem-teeth-") as folder:
        whole = failing(tuple(safeguard.test for safeguard in SAFEGUARDS), copy_tree(Path(folder)))
    print(f"with every safeguard: {len(whole)} of {len(SAFEGUARDS)} tests fail")
    toothless = list(whole)
    for safeguard in SAFEGUARDS:
        with tempfile.TemporaryDirectory(prefix="tandem-teeth-") as folder:
            tree = copy_tree(Path(folder))
            remove(safeguard, tree)
            bites = failing((safeguard.test,), tree)
        print(f"without the {safeguard.name}: {safeguard.test} {'fails' if bites else 'PASSES'}", flush=True)
        toothless += [] if bites else [safeguard.test]
    return 1 if toothless else 0


if __name__ == "__main__":
    sys.exit(main())
