"""A folder that lives as long as a module: what a run did is recorded once, and many tests look at it."""

from pathlib import Path

import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def module_folder(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """A folder for the module's servers, named after it."""
    return tmp_path_factory.mktemp(request.module.__name__.rpartition(".")[2].replace("_", "-"))
