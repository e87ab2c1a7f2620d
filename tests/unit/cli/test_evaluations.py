"""A server that dies under an evaluation is said to have died, not to be out of reach."""

import socket
from pathlib import Path

import pytest

from shared.cli.demo import evaluations as module
from shared.cli.demo.evaluations import Evaluator
from shared.cli.demo.services import ServerDied
from shared.errors import UserError


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch) -> str:
    """A URL where nobody listens."""
    monkeypatch.setattr(module, "POLL_S", 0.0)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


async def test_its_end_is_seen_a_moment_after_its_connections(nowhere: str, tmp_path: Path):
    looks = 0

    def check() -> None:
        nonlocal looks
        looks += 1
        if looks == 3:
            raise ServerDied("the executor server was killed by signal 9")

    evaluator = Evaluator("run", nowhere, tmp_path / "log", check, key="k")
    with pytest.raises(ServerDied, match="killed by signal 9"):
        await evaluator.checkpoints(nowhere)
    await evaluator.close()


async def test_one_that_lives_is_named_by_its_url(nowhere: str, tmp_path: Path):
    evaluator = Evaluator("run", nowhere, tmp_path / "log", lambda: None, key="k")
    with pytest.raises(UserError, match=f"{nowhere}/v1/checkpoints cannot be reached"):
        await evaluator.checkpoints(nowhere)
    await evaluator.close()
