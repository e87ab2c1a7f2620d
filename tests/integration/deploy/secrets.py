"""What deploy/secrets.sh makes, in a folder of a test's own."""

import os
import subprocess
import sys
from pathlib import Path

from tests.integration.deploy.compose import DEPLOY


def make_secrets(folder: Path, **environment: str) -> list[str]:
    """Run it; the files that it says it made, relative to `folder`."""
    said = run_secrets(folder, **environment).stdout.splitlines()
    return [line.removeprefix(f"{folder}/") for line in said]


def run_secrets(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run it; what it said."""
    command = [DEPLOY / "secrets.sh", folder]
    given = os.environ | {"TANDEM_CLI": str(Path(sys.executable).parent / "tandem")} | environment
    result = subprocess.run(command, env=given, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stderr
    return result
