"""What `tandem status` looks at: one run, from a handful of calls."""

from dataclasses import dataclass
from typing import Any

from shared.cli.names import ENDED
from shared.cli.server import Server
from shared.schemas.base import Page, Role
from shared.schemas.run import RunStatus
from shared.schemas.stream import StepStatistics
from shared.schemas.verdict import Verdict
from shared.schemas.views import DeliveryRow, WorkerRow


@dataclass(frozen=True, slots=True)
class Picture:
    """One look at a run. `steps`: the last acked step of each role that has one; `dead`: deliveries that need you."""

    status: RunStatus
    verdict: Verdict
    workers: tuple[WorkerRow, ...]
    steps: dict[Role, StepStatistics]
    dead: tuple[DeliveryRow, ...]

    @property
    def over(self) -> bool:
        """Nothing more will happen in it."""
        return self.status.state in ENDED

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "status": self.status.model_dump(mode="json"),
            "verdict": self.verdict.model_dump(mode="json"),
            "workers": [worker.model_dump(mode="json") for worker in self.workers],
            "steps": {role: step.model_dump(mode="json") for role, step in self.steps.items()},
            "dead": [row.model_dump(mode="json") for row in self.dead],
        }


def look(server: Server, run: str) -> Picture:
    """Look at the run; NotFound where there is none."""
    path = f"/v1/runs/{run}"
    status = server.get(f"{path}/status", RunStatus)
    steps: dict[Role, StepStatistics] = {}
    for role, stream in status.roles.items():
        found = server.get(f"{path}/steps", Page[StepStatistics], after=max(0, stream.acked_step - 1), limit=2)
        steps |= {step.role: step for step in found.items if step.role == role}
    return Picture(
        status=status,
        verdict=server.get(f"{path}/verdict", Verdict),
        workers=tuple(server.items(f"{path}/workers", WorkerRow)),
        steps=steps,
        dead=tuple(server.items(f"{path}/deliveries", DeliveryRow, state="dead")),
    )
