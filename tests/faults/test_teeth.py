"""The script `teeth` in short: every safeguard out of one copy at once, and each of the named tests fails."""

from pathlib import Path

from tests.faults.teeth import SAFEGUARDS, copy_tree, failing, remove


def test_without_the_safeguards_every_named_test_fails(tmp_path: Path) -> None:
    tree = copy_tree(tmp_path)
    for safeguard in SAFEGUARDS:
        remove(safeguard, tree)
    tests = tuple(safeguard.test for safeguard in SAFEGUARDS)
    assert failing(tests, tree) == set(tests)
