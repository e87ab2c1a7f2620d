"""One rollout as it is recorded: whose it is, the executor's calls in it, and what their rewards come to."""

from dataclasses import dataclass
from typing import Any

from shared.cli.server import Server
from shared.errors import NotFound
from shared.mgrpo.rewards import correct_main, executor_reward, planner_reward
from shared.schemas.rollout import GroupView
from shared.schemas.run import RunView
from shared.schemas.views import RolloutView, TrajectoryRecord


@dataclass(frozen=True, slots=True)
class Account:
    """A rollout with its run, its group and the executor's trajectories, in the order of the calls."""

    run: RunView
    group: GroupView
    rollout: RolloutView
    calls: tuple[TrajectoryRecord, ...]

    @property
    def reward(self) -> float | None:
        """Of the planner (Eq. 4); None where it has none."""
        rollout = self.rollout
        if rollout.r_format is None or rollout.r_correct is None:
            return None
        return planner_reward(rollout.r_format, rollout.r_correct, self.run.spec.planner_reward, rollout)

    def reward_of(self, call: TrajectoryRecord) -> float | None:
        """Of the executor for this call (Eq. 5); None where it is not scored, or its rollout has no reward to share."""
        rollout = self.rollout
        unjudged = call.r_format is None or (call.r_format == 1 and call.r_expert is None)
        if unjudged or rollout.r_format is None or rollout.r_correct is None:
            return None
        assert call.r_format is not None
        shared_fate = correct_main(rollout.r_format, rollout.r_correct)
        return executor_reward(call.r_format, shared_fate, call.r_expert, self.run.spec.executor_reward)

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "rollout": self.rollout.model_dump(mode="json") | {"reward": self.reward},
            "group": self.group.model_dump(mode="json"),
            "calls": [call.model_dump(mode="json") | {"reward": self.reward_of(call)} for call in self.calls],
        }


def account_of(server: Server, rollout: str) -> Account:
    """The account of one rollout; NotFound where there is none."""
    view = server.get(f"/v1/rollouts/{rollout}", RolloutView)
    calls = [server.get(f"/v1/trajectories/{name}", TrajectoryRecord) for name in view.executor_trajectories]
    group = server.get(f"/v1/groups/{view.group}", GroupView)
    return Account(server.get(f"/v1/runs/{view.run}", RunView), group, view, tuple(calls))


def accounts_in(server: Server, group: str) -> list[Account]:
    """Those of all rollouts of a group, by slot; NotFound where there is neither a group nor a rollout of that id."""
    try:
        view = server.get(f"/v1/groups/{group}", GroupView)
    except NotFound:
        raise NotFound(f"there is no rollout and no group {group}") from None
    run = server.get(f"/v1/runs/{view.run}", RunView)
    known = {t.id: t for t in server.items(f"/v1/groups/{group}/trajectories", TrajectoryRecord)}
    return [
        Account(run, view, rollout, tuple(known[id] for id in rollout.executor_trajectories if id in known))
        for rollout in server.items(f"/v1/groups/{group}/rollouts", RolloutView)
    ]
