"""Follow a run until enough of its steps were live, or too many were dead: bars, a line for each step, its figures."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import httpx
from rich.progress import Progress, TaskID

from shared.cli.demo.metrics import Metrics
from shared.cli.demo.services import Services
from shared.cli.demo.settings import trained
from shared.cli.demo_llm.outcome import Outcome, judge
from shared.cli.demo_llm.rates import Sampling, sampled_tokens
from shared.cli.demo_llm.settings import LlmSettings
from shared.client import SyncClient
from shared.errors import Unavailable, UserError
from shared.schemas import ROLES, Role
from shared.schemas.run import RunStatus
from shared.schemas.stream import StepStatistics

POLL_S = 0.5
FIGURES = {"reward": "reward_mean", "format": "format_mean", "correct": "correct_mean", "tokens/s": "tokens_per_second"}


@dataclass(slots=True)
class Follow:
    """Consumes the sync service's status and steps, and the samplers' counters; produces metrics and bars."""

    run: str
    settings: LlmSettings
    services: Services
    sync: SyncClient
    metrics: Metrics
    progress: Progress
    sampling: Sampling = field(default_factory=Sampling)
    _told: set[int] = field(default_factory=set)
    _looked: float | None = None

    async def until_decided(self) -> Outcome:
        """The run is then told to drain. UserError where it failed or a server died."""
        wanted = self.settings.llm
        live = self.progress.add_task("live steps", total=wanted.live_steps, note="")
        groups = self.progress.add_task("groups", total=None, note="")
        while True:
            self.services.check()
            status = await self._status()
            for step in await self.sync.steps(self.run):
                self.metrics.add_step(step)
            outcome = judge(self.steps())
            self._show(status, outcome, live, groups)
            await self._count(bool(status.groups.get("open")))
            if outcome.reached(wanted) or outcome.given_up(wanted) or status.state == "finished":
                if status.state == "running":
                    await self.sync.drain(self.run)
                return outcome
            if status.state == "failed":
                raise UserError(f"the run failed: {status.reason}")
            await asyncio.sleep(POLL_S)

    def steps(self) -> dict[Role, Sequence[StepStatistics]]:
        """What each role that trains has acked."""
        return {role: self.metrics.steps(role) for role in trained(self.settings)}

    async def _status(self) -> RunStatus:
        try:
            return await self.sync.status(self.run)
        except Unavailable:
            self.services.check()  # says more, where the service has died
            raise

    def _show(self, status: RunStatus, outcome: Outcome, live: TaskID, groups: TaskID) -> None:
        dead = f"{len(outcome.dead)} dead, {self.settings.llm.retries} may be"
        self.progress.update(live, completed=len(outcome.live), note=dead)
        closed = status.groups.get("complete", 0) + status.groups.get("discarded", 0)
        opened = closed + status.groups.get("open", 0)
        self.progress.update(groups, total=opened or None, completed=closed, note="; ".join(status.waiting_for[:1]))
        for step in sorted({*outcome.live, *outcome.dead} - self._told):
            self._told.add(step)
            self.progress.console.print(step_line(step, self.steps(), outcome), highlight=False)

    async def _count(self, sampling: bool) -> None:
        now = asyncio.get_running_loop().time()
        if sampling:
            self.sampling.seconds += now - (now if self._looked is None else self._looked)
        self._looked = now
        headers = {"authorization": f"Bearer {self.services.keys.text('viewer')}"}
        async with httpx.AsyncClient(headers=headers, timeout=30.0) as http:
            for role in ROLES:
                with suppress(httpx.HTTPError):  # it is counted the next time, or `Services.check` says why it has died
                    answer = await http.get(f"{getattr(self.services.urls, role)}/metrics")
                    self.sampling.tokens[role] = sampled_tokens(answer.raise_for_status().text)


def step_line(step: int, steps: Mapping[Role, Sequence[StepStatistics]], outcome: Outcome) -> str:
    """`step 1: live; planner: 4 live rows, reward 0.31, format 1.00; executor: no live row, reward 0.55, ...`."""
    parts = [f"step {step}: {'dead' if step in outcome.dead else 'live'}"]
    for role, of_role in steps.items():
        numbers = next(s.statistics for s in of_role if s.step == step)
        told = [f"{numbers.get('rows', 0):.0f} live rows"]
        told += [f"{name} {numbers[key]:.2f}" for name, key in FIGURES.items() if key in numbers]
        parts.append(f"{role}: {', '.join(told)}")
    return "; ".join(parts)
