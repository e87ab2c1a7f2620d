"""Secrets of a deployment, made once for the tests that only read them."""

from pathlib import Path

import pytest

from tests.integration.deploy.secrets import make_secrets


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that `make secrets` fills."""
    folder = tmp_path_factory.mktemp("deployment") / "secrets"
    make_secrets(folder, TANDEM_NAME="tandem.example")
    return folder
