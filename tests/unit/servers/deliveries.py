"""Deliveries and stored trajectories for the tests of what trainers make of them."""

from typing import Any

from shared.policy.types import Trajectory
from shared.schemas import PolicyVersion, Role
from shared.schemas.stream import DeliveredGroup, DeliveredRollout, DeliveredTrajectory, DeliveryView

NEW = PolicyVersion(epoch=1, step=5, updates=5)
OLD = PolicyVersion(epoch=1, step=3, updates=3)


def uuid(number: int) -> str:
    return f"00000000-0000-7000-8000-{number:012d}"


def delivery(role: Role, *groups: DeliveredGroup) -> DeliveryView:
    return DeliveryView(id=uuid(0), run="r", role=role, step=6, epoch=1, attempt=1, groups=groups)


def group(number: int, *rollouts: DeliveredRollout, state: Any = "complete") -> DeliveredGroup:
    return DeliveredGroup(id=uuid(number), step=6, index=number % 100, state=state, rollouts=rollouts)


def rollout(
    number: int, correct: float = 0.0, trajectories: tuple[DeliveredTrajectory, ...] = (), **changes: Any
) -> DeliveredRollout:
    fields: dict[str, Any] = {
        "id": uuid(number),
        "slot": number % 100,
        "status": "reported",
        "planner_trajectory": uuid(number),
        "r_format": 1,
        "r_correct": correct,
        "calls": len(trajectories),
        "version": NEW,
        "executor_trajectories": trajectories,
    }
    return DeliveredRollout(**fields | changes)


def aborted(number: int, trajectories: tuple[DeliveredTrajectory, ...] = ()) -> DeliveredRollout:
    return DeliveredRollout(
        id=uuid(number),
        slot=number % 100,
        status="aborted",
        reason="executor-failed",
        executor_trajectories=trajectories,
    )


def trajectory(number: int, expert: float | None = 0.0, **changes: Any) -> DeliveredTrajectory:
    fields = {"id": uuid(number), "state": "scored", "r_format": 1, "r_expert": expert, "version": NEW}
    return DeliveredTrajectory(**fields | changes)


def stored(view: DeliveryView, *missing: int) -> dict[str, Trajectory]:
    """A stored trajectory for every id of the delivery but the missing ones; each has sampled its own number."""
    rollouts = [r for g in view.groups for r in g.rollouts]
    names = [r.planner_trajectory for r in rollouts if r.planner_trajectory]
    if view.role == "executor":
        names = [t.id for r in rollouts for t in r.executor_trajectories]
    present = set(names) - {uuid(number) for number in missing}
    return {n: Trajectory(n, "r", view.role, [1, int(n[-12:])], [0, 1], [0.0, -1.0], NEW) for n in present}


def tree(root: int, *below: int) -> dict[str, Trajectory]:
    """A stored rollout, and what its own policy did below it; of every other one the format is valid."""
    facts = {"calls": len(below), "parts": [uuid(n) for n in below]}
    made = {uuid(root): Trajectory(uuid(root), "r", "planner", [1, root], [0, 1], [0.0, -1.0], NEW, facts=facts)}
    for n in below:
        answer = {"answer": {"r_format": n % 2}}
        made[uuid(n)] = Trajectory(uuid(n), "r", "executor", [1, n], [0, 1], [0.0, -1.0], NEW, facts=answer)
    return made
