import pytest

from shared.environments.atlas import Atlas
from shared.environments.atlas.world import World


@pytest.fixture(scope="session")
def atlas() -> Atlas:
    return Atlas()


@pytest.fixture(scope="session")
def world(atlas) -> World:
    return atlas.world
