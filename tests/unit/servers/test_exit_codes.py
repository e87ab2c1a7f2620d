"""How a server ends says whether starting it again may help."""

from pathlib import Path
from typing import Any

import pytest
import structlog
from fastapi import FastAPI

from planner_server.config import PlannerConfig
from shared.errors import CheckpointAhead, Conflict, ProtocolMismatch, TandemError, Unavailable
from shared.http.lifespan import rooted
from shared.http.ports import free_port
from shared.serving.main import run_server

CONFIGURATION = """
run = "r"
worker = "w"
auth = "loopback"
sync_url = "http://sync"
executor_url = "http://executor"
environment = "atlas"
policy.model = "model"
"""


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (CheckpointAhead("the database is older"), 2),
        (ProtocolMismatch("upgrade the service"), 2),
        (Conflict("the sampler loaded other weights"), 1),
        (Unavailable("the service is away"), 1),
    ],
)
def test_a_fault_that_a_restart_does_not_mend_is_exit_code_2(
    fault: TandemError, code: int, tmp_path: Path, capfd: pytest.CaptureFixture
):
    def create(config: Any) -> FastAPI:
        async def root() -> None:
            raise fault

        return FastAPI(lifespan=lambda app: rooted(app, root))

    file = tmp_path / "planner.toml"
    file.write_text(f'port = {free_port()}\nfolder = "{tmp_path / "data"}"\n{CONFIGURATION}')
    try:
        assert run_server("planner-server", PlannerConfig, create, ["--config", str(file)]) == code
    finally:
        structlog.reset_defaults()
    assert capfd.readouterr().err.splitlines()[-1] == f"planner-server: {fault.detail}"
