"""`make check-security`: what it makes of an audit; that nothing audited is never taken for nothing found."""

import json
import venv
from pathlib import Path
from typing import Any

import pytest

from deploy import check_security

CLEAN = {"name": "clean", "version": "1.0", "vulns": []}
UNKNOWN = {"name": "unknown", "skip_reason": "Dependency not found on PyPI"}
FAULTY = {"name": "faulty", "version": "1.0", "vulns": [{"id": "PYSEC-1", "fix_versions": ["1.1"]}]}


@pytest.mark.parametrize(
    ("packages", "code", "says"),
    [
        ([CLEAN], 0, "no vulnerability is known"),
        ([CLEAN, FAULTY], 1, "faulty 1.0: PYSEC-1, mended in 1.1"),
        ([CLEAN, UNKNOWN], 0, "not audited: unknown"),
        ([UNKNOWN], 3, "nothing was audited"),
        ([], 3, "nothing was audited"),
    ],
)
def test_the_exit_code_says_what_is_known(
    packages: list[dict[str, Any]],
    code: int,
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.setattr(check_security, "ROOT", tmp_path)
    monkeypatch.setattr(check_security, "BUILD", tmp_path / "build")
    monkeypatch.setattr(check_security, "write_bill", lambda file: file.write_text('{"components": []}'))
    monkeypatch.setattr(check_security, "audit", lambda pins, report: (packages, "no answer"))
    assert check_security.main() == code
    printed = capsys.readouterr()
    assert says in printed.out + printed.err


def test_the_bill_is_that_of_an_environment(tmp_path: Path):
    venv.create(tmp_path / "venv")
    packages = next((tmp_path / "venv" / "lib").iterdir()) / "site-packages"
    (packages / "museum-1.2.dist-info").mkdir()
    (packages / "museum-1.2.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: museum\nVersion: 1.2\n")
    check_security.write_bill(tmp_path / "sbom.json", str(tmp_path / "venv" / "bin" / "python"))
    bill = json.loads((tmp_path / "sbom.json").read_text())
    assert bill["bomFormat"] == "CycloneDX"
    assert [(part["name"], part["version"]) for part in bill["components"]] == [("museum", "1.2")]
