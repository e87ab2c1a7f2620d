"""The files that pages take from elsewhere are those that the table names, and nothing else is there."""

import hashlib
import re
from pathlib import Path

import sync_service.dashboard

FOLDER = Path(sync_service.dashboard.__file__).parent / "static" / "vendor"
ROW = re.compile(r"^\| `(\S+)` \| \S+ \| [\d.]+ \| `\S+` \| [\w-]+ \((\S+)\) \| `([0-9a-f]{64})` \|$", re.MULTILINE)


def test_each_file_has_its_hash_and_its_licence():
    rows = ROW.findall((FOLDER / "README.md").read_text())
    assert {name: hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() for name, _, _ in rows} == {
        name: digest for name, _, digest in rows
    }
    named = {name for name, _, _ in rows} | {licence for _, licence, _ in rows} | {"README.md"}
    assert {path.name for path in FOLDER.iterdir()} == named
    assert all("ermission" in (FOLDER / licence).read_text() for _, licence, _ in rows)
