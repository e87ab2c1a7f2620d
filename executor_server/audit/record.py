"""What the sync service recorded of a group and of the steps that trained on it, read over HTTP."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from shared.cli.server import Server
from shared.schemas.base import Role
from shared.schemas.rollout import GroupView
from shared.schemas.run import RunSpec, RunView
from shared.schemas.stream import Fate, StepStatistics
from shared.schemas.views import RolloutView, TrajectoryRecord


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """A group with its rollouts, by slot, and the executor's trajectories, by id."""

    group: GroupView
    rollouts: tuple[RolloutView, ...]
    trajectories: dict[str, TrajectoryRecord]

    def delivered(self, step: int) -> Iterator[tuple[RolloutView, TrajectoryRecord]]:
        """The trajectories that the executor's delivery of `step` holds, each with its rollout."""
        for rollout in self.rollouts:
            for name in rollout.executor_trajectories if rollout.state == "reported" else ():
                if (found := self.trajectories[name]).step == step:
                    yield rollout, found

    @property
    def steps(self) -> list[int]:
        """Those whose deliveries hold something of it; under cutter `arrival` these may be several."""
        return sorted({self.group.step, *(t.step for t in self.trajectories.values() if t.step is not None)})


@dataclass(frozen=True, slots=True)
class Record:
    """Groups of one step, the group in question first, and the acks of the steps that hold its rows and before."""

    run: str
    spec: RunSpec
    groups: tuple[GroupRecord, ...]
    acks: dict[tuple[Role, int], StepStatistics] = field(default_factory=dict)

    def updates_before(self, role: Role, step: int) -> int:
        """The optimiser steps behind the weights that `step` was trained into."""
        before = self.acks.get((role, step - 1))
        return before.updates if before else 0


def read(server: Server, group: str, *, whole_step: bool) -> Record:
    """Read it; NotFound where there is no such group. `whole_step`: all other groups of its step, too."""
    view = server.get(f"/v1/groups/{group}", GroupView)
    run = server.get(f"/v1/runs/{view.run}", RunView)
    others = server.items(f"/v1/runs/{view.run}/groups", GroupView, step=view.step) if whole_step else ()
    views = [view, *(other for other in others if other.group != group)]
    groups = tuple(_group(server, each) for each in views)
    return Record(run.run, run.spec, groups, _acks(server, run.run, groups[0].steps))


def _group(server: Server, view: GroupView) -> GroupRecord:
    path = f"/v1/groups/{view.group}"
    trajectories = {t.id: t for t in server.items(f"{path}/trajectories", TrajectoryRecord)}
    return GroupRecord(view, tuple(server.items(f"{path}/rollouts", RolloutView)), trajectories)


def _acks(server: Server, run: str, steps: list[int]) -> dict[tuple[Role, int], StepStatistics]:
    found = {}
    for ack in server.items(f"/v1/runs/{run}/steps", StepStatistics, after=max(0, steps[0] - 2)):
        if ack.step > steps[-1]:
            break
        found[ack.role, ack.step] = ack
    return found


def recorded_fate(thing: RolloutView | TrajectoryRecord) -> Fate | None:
    """What became of a rollout's planner trajectory, or of an executor trajectory; None: nothing is recorded."""
    if thing.multiplicity is not None:
        return thing.multiplicity
    if isinstance(thing, RolloutView):
        return thing.fate_reason
    return thing.reason if thing.state == "dropped" else None
