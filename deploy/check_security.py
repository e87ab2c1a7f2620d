"""`make check-security`: known vulnerabilities of what constraints.txt pins, and a bill of materials.

Exit codes: 0 none is known; 1 some are, and are listed; 3 the advisory database (pypi.org) cannot be reached, so
nothing is known: one line says so. The bill (CycloneDX) of this environment is written in any case, to
build/sbom.json, and needs no network.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
BUILD = ROOT / "build"
FOUND, UNREACHABLE = 1, 3
TIMEOUT_S = 600


def main() -> int:
    """Write the bill, audit, and say what was found."""
    BUILD.mkdir(exist_ok=True)
    bill = BUILD / "sbom.json"
    write_bill(bill)
    print(f"{bill.relative_to(ROOT)}: {len(json.loads(bill.read_text())['components'])} components")
    packages, fault = audit(ROOT / "constraints.txt", BUILD / "audit.json")
    skipped = [package["name"] for package in packages if "skip_reason" in package]
    if len(skipped) == len(packages):
        print(f"the advisory database cannot be reached, so nothing was audited: {fault}", file=sys.stderr)
        return UNREACHABLE
    if skipped:
        print(f"not in the advisory database, and not audited: {', '.join(skipped)}")
    lines = findings(packages)
    print("\n".join(lines) or "no vulnerability is known of the others that constraints.txt pins")
    return FOUND if lines else 0


def write_bill(file: Path, python: str = sys.executable) -> None:
    """The packages of the environment of `python`, with versions and licences."""
    command = [BIN / "cyclonedx-py", "environment", "--output-format", "JSON", "--output-file", file, python]
    subprocess.run(command, check=True, timeout=TIMEOUT_S, capture_output=True)


def audit(pins: Path, report: Path) -> tuple[list[dict[str, Any]], str]:
    """What pip-audit says of each pin, those that it could not look up, too; what went wrong where it says nothing."""
    report.unlink(missing_ok=True)
    command = [BIN / "pip-audit", "--requirement", pins, "--no-deps", "--disable-pip", "--progress-spinner", "off"]
    command += ["--timeout", "15", "--format", "json", "--output", report]
    result = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if not report.exists():
        return [], (result.stderr.strip().splitlines() or ["pip-audit said nothing"])[-1]
    return json.loads(report.read_text())["dependencies"], "it knows none of these packages"


def findings(packages: list[dict[str, Any]]) -> list[str]:
    """One line for each vulnerability."""
    return [
        f"{package['name']} {package['version']}: {fault['id']}, mended in {' '.join(fault['fix_versions']) or 'none'}"
        for package in packages
        for fault in package.get("vulns", [])
    ]


if __name__ == "__main__":
    sys.exit(main())
