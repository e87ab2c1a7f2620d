"""The rollout loop: opens the groups of each step, and brings every slot of them to its end.

A group's task is a pure function of the run's seed, its step and its index, and its id is derived from the same: so a
restarted planner goes on with the groups that are open, opens those that are missing, and repeats and skips none.
"""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from planner_server.executor import ExecutorFailed
from planner_server.horizon import Horizon
from planner_server.rollout import Roller, Rollout
from planner_server.terms import term_scores
from shared.client import SyncClient
from shared.environments.base import Task
from shared.errors import InvalidTransition, StalenessBound, Unavailable
from shared.ids import derived_id, new_id
from shared.policy.types import SamplingParams
from shared.schemas.rollout import GroupItem, GroupOpen, GroupView, RolloutReport
from shared.schemas.run import RunSpec
from shared.serving.flights import Flights
from shared.serving.member import Member

log = structlog.get_logger()

EXECUTOR_FAILED = "executor-failed"
SAMPLER_FAILED = "sampler-failed"
DEADLINE = "rollout-deadline"

Report = Callable[[str, RolloutReport, Rollout | None], Awaitable[None]]
"""Takes over a final slot: stores its rollout (None where it was aborted) and submits the report."""


class RolloutLoop:
    """Works through the steps of one run, at most `places` rollouts at once."""

    def __init__(
        self,
        member: Member,
        sync: SyncClient,
        spec: RunSpec,
        roller: Roller,
        params: SamplingParams,
        report: Report,
        *,
        places: int,
        attempts: int,
        flights: Flights | None = None,
    ) -> None:
        self._member = member
        self._sync = sync
        self._spec = spec
        self._roller = roller
        self._params = params
        self._report = report
        self._places = asyncio.Semaphore(places)
        self._attempts = attempts
        self._flights = flights or Flights("rollout")
        self._horizon = Horizon(sync, member.run)
        self._started: set[str] = set()

    async def run(self) -> None:
        """Consumes tasks; waits for the horizon; is unblocked by the roles' confirmed versions; produces rollouts."""
        async with asyncio.TaskGroup() as slots:
            for view in await self._sync.groups(self._member.run, state="open"):
                self._start(slots, view)
            for step in range(await self._first_step(), self._spec.steps + 1):
                self._say(f"waiting until step {step} may be opened")
                views = await self._open(step)
                if views is None:
                    break
                self._say(f"rollouts of step {step}")
                for view in views:
                    self._start(slots, view)
        self._say("no more groups to open")

    async def _first_step(self) -> int:
        """The first step of which a group may be missing or open: batches are cut only when all theirs are closed."""
        roles = (await self._sync.status(self._member.run, counts=False)).roles
        return 1 + max((role.acked_step for role in roles.values()), default=0)

    async def _open(self, step: int) -> list[GroupView] | None:
        """All groups of `step`, opened now or before; None where the run opens nothing more."""
        while await self._horizon.may_open(step):
            try:
                indexes = range(self._spec.groups_per_step)
                return await self._sync.open_groups([self._opening(step, index) for index in indexes])
            except (StalenessBound, InvalidTransition) as moved:  # the run moved on between the question and now
                log.info("open-refused", step=step, detail=moved.detail)
        return None

    def _opening(self, step: int, index: int) -> GroupItem:
        task = self._task(step, index)
        body = GroupOpen(run=self._member.run, step=step, index=index, task_id=task.id)
        return GroupItem(id=derived_id(self._member.run, "group", step, index), body=body)

    def _task(self, step: int, index: int) -> Task:
        place = (step - 1) * self._spec.groups_per_step + index
        return self._roller.environment.task("train", self._spec.seed, place)

    def _start(self, slots: asyncio.TaskGroup, view: GroupView) -> None:
        """Bring the slots that are still owed to their end; once for each group."""
        if view.state == "open" and view.group not in self._started:
            self._started.add(view.group)
            for slot in range(self._spec.rollouts_per_group):
                if slot not in view.final_slots:
                    slots.create_task(self._slot(view, slot))

    async def _slot(self, view: GroupView, slot: int) -> None:
        async with self._places:
            with self._flights.one() as flight:
                ended = await self._attempt_until_done(view, slot)
                flight.outcome = "reported" if isinstance(ended, Rollout) else ended or "run-over"
        if isinstance(ended, Rollout):
            await self._report(ended.id, self._reported(view, slot, ended), ended)
        elif ended is not None:
            aborted = RolloutReport(run=view.run, group=view.group, slot=slot, status="aborted", reason=ended)
            await self._report(new_id(), aborted, None)

    async def _attempt_until_done(self, view: GroupView, slot: int) -> Rollout | str | None:
        """The first attempt that came to its end, or the reason why none did; None where the run has ended."""
        task, reason = self._task(view.step, view.index), SAMPLER_FAILED
        for attempt in range(1, self._attempts + 1):
            if not await self._horizon.may_start(view.step):
                return None
            try:
                async with asyncio.timeout(self._spec.rollout_deadline_s):
                    return await self._roller.roll_out(task, "train", self._params)
            except TimeoutError:
                return DEADLINE
            except Unavailable as fault:
                reason = EXECUTOR_FAILED if isinstance(fault, ExecutorFailed) else SAMPLER_FAILED
                log.warning("attempt-aborted", group=view.group, slot=slot, attempt=attempt, reason=fault.detail)
        return reason

    def _say(self, what: str) -> None:
        self._member.doing["rollouts"] = what

    def _reported(self, view: GroupView, slot: int, rollout: Rollout) -> RolloutReport:
        scores = term_scores(rollout, self._spec.planner_reward, self._roller.toolbox)
        return RolloutReport(
            run=view.run,
            group=view.group,
            slot=slot,
            planner_trajectory=rollout.id,
            r_format=rollout.episode.r_format,
            r_correct=rollout.r_correct,
            r_protocol=scores.get("protocol"),
            r_efficiency=scores.get("efficiency"),
            r_diversity=scores.get("diversity"),
            executor_trajectories=tuple(d.id for d in rollout.delegations if d.episode is None),
            tokens=rollout.tokens,
            version=rollout.version,
        )
