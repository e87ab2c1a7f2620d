"""Follow a run until it is finished: progress bars, metrics, validations beside the training, the learning verdict."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

from rich.progress import Progress

from shared.cli.demo.evaluations import EvaluationFailed, Evaluator, of_checkpoints
from shared.cli.demo.metrics import Metrics
from shared.cli.demo.services import Services
from shared.cli.demo.settings import Settings, run_name, trained
from shared.client import SyncClient
from shared.errors import NotFound, Unavailable, UserError
from shared.learning import learning
from shared.schemas import Role
from shared.schemas.invocation import EvaluationRequest
from shared.schemas.run import RunStatus

POLL_S = 0.5


class NotLearning(UserError):
    """NOT LEARNING."""


@dataclass(slots=True)
class Watch:
    """One run as it goes on. Consumes the sync service's status and steps; produces metrics, bars and validations."""

    folder: Path
    settings: Settings
    services: Services
    sync: SyncClient
    evaluator: Evaluator
    metrics: Metrics
    progress: Progress
    _missed: set[int] = field(default_factory=set)

    async def until_finished(self) -> RunStatus:
        """Returns the last status; raises NotLearning, or UserError where the run failed or a server died.

        A run may be finished while it waits for its trainers to come back, whose checkpoints may lack its last steps:
        then it goes on. So the end is what a status says that was asked for after both have resumed.
        """
        run, spec = run_name(self.folder), self.settings.spec()
        bars = {
            role: self.progress.add_task(f"train {role}", total=spec.steps, note="") for role in trained(self.settings)
        }
        groups = self.progress.add_task("groups", total=spec.steps * spec.groups_per_step, note="")
        async with asyncio.TaskGroup() as side:
            validation: asyncio.Task | None = None
            seen = resumed = False
            while True:
                self.services.check()
                status = await self._status(run)
                finished = status.state == "finished" and resumed
                whole = not seen or finished  # a resume may have trained earlier steps again
                await self._collect(run, whole=whole)
                seen = True
                closed = status.groups.get("complete", 0) + status.groups.get("discarded", 0)
                self.progress.update(groups, completed=closed, note="; ".join(status.waiting_for[:1]))
                for role, bar in bars.items():
                    self.progress.update(bar, completed=self.metrics.last(role), note=self._note(role))
                if status.state == "failed":
                    raise UserError(f"the run failed: {status.reason}")
                self._judge()
                if validation is None or validation.done():
                    validation = side.create_task(self._validate_next())
                if finished:
                    break
                resumed = self._resumed(status)
                await asyncio.sleep(POLL_S)
            await validation
        while await self._validate_next():
            pass
        return status

    async def _status(self, run: str) -> RunStatus:
        try:
            return await self.sync.status(run)
        except Unavailable:
            self.services.check()  # says more, where the service has died
            raise

    def _resumed(self, status: RunStatus) -> bool:
        """Whether every trainer of this start has told its stream what its checkpoint holds."""
        before = self.services.epochs
        return all(status.roles[role].epoch > before.get(role, 0) for role in trained(self.settings))

    async def _collect(self, run: str, *, whole: bool) -> None:
        after = 0 if whole else min(self.metrics.last(role) for role in trained(self.settings))
        for step in await self.sync.steps(run, after=max(0, after - self.settings.spec().staleness - 1)):
            self.metrics.add_step(step)

    def _note(self, role: Role) -> str:
        steps = self.metrics.steps(role)[-5:]
        rewards = [s.statistics["reward_mean"] for s in steps if "reward_mean" in s.statistics]
        validation = f"  validation {max(self.metrics.validations.items())[1]:.2f}" if self.metrics.validations else ""
        return f"reward {sum(rewards) / len(rewards):.2f}{validation if role == 'planner' else ''}" if rewards else ""

    def _judge(self) -> None:
        judged = learning([step.statistics for step in self.metrics.steps("planner")])
        if judged == "NOT LEARNING" and self.settings.demo.learning_verdict:
            raise NotLearning(
                "NOT LEARNING: nearly every group of the last 10 steps is dead, and few answers are right"
            )

    async def _validate_next(self) -> bool:
        """Validate the newest pair of checkpoints that nobody has judged yet; keep it if it is the best.

        A pair that retention removes meanwhile is missed: validation goes on beside the training, never in its way.
        """
        urls = [getattr(self.services.urls, role) for role in trained(self.settings)]
        step = max(self._due(set.intersection(*[await self.evaluator.checkpoints(url) for url in urls])), default=None)
        if step is None:
            return False
        name = f"step-{step}"
        try:
            view = await self.evaluator.evaluate(validation_request(self.settings, name))
            self.metrics.add_validation(step, view.correct)
            if view.accuracy == max(self.metrics.validations.values()):
                for url in urls:
                    await self.evaluator.keep_checkpoint(url, name)
        except (NotFound, EvaluationFailed) as error:
            self._missed.add(step)
            self.progress.console.print(f"validation of step {step} was missed: {error.detail}")
        return True

    def _due(self, names: set[str]) -> set[int]:
        """The steps of those checkpoints that are to be validated."""
        steps = {int(name.removeprefix("step-")) for name in names if name.startswith("step-")}
        done = self._missed | self.metrics.validations.keys()
        return {step for step in steps - done if step % self.settings.demo.validation_every == 0}


def validation_request(settings: Settings, checkpoint: str) -> EvaluationRequest:
    """The first validation tasks, at temperature 1; a role that does not train stays `initial`."""
    return EvaluationRequest(
        split="validation",
        n=settings.demo.validation_tasks,
        seed=settings.spec().seed,
        **of_checkpoints(settings, dict.fromkeys(trained(settings), checkpoint)),
    )
