"""What the clients send, as a pure function of the place: a restarted client sends the same bodies again.

Most slots are reported in time; some are aborted, some come late on purpose, and some scores are missing or late.
"""

import hashlib

from shared.ids import derived_id
from shared.schemas import PolicyVersion
from shared.schemas.rollout import GroupOpen, RolloutItem, RolloutReport, TrajectoryItem, TrajectoryReport
from shared.schemas.run import RunSpec

VERSION = PolicyVersion(epoch=0, step=0, updates=0)
SPEC = RunSpec(
    steps=100_000,  # a drain ends it
    rollouts_per_group=4,
    groups_per_step=4,
    staleness=3,
    rollout_deadline_s=4.0,
    score_deadline_s=3.0,
    orphan_deadline_s=4.0,
    lease_ttl_s=3.0,
    max_attempts=50,
)
ABORTED, LATE_SLOT, UNSCORED, LATE_SCORE, EARLY_SCORES, SINGLE = 0.05, 0.0005, 0.03, 0.0005, 0.5, 0.5


def chance(*place: object) -> float:
    """A number in [0, 1) that belongs to `place`."""
    return int.from_bytes(hashlib.blake2b("/".join(map(str, place)).encode(), digest_size=7).digest()) / 2**56


def group(run: str, step: int, index: int) -> tuple[str, GroupOpen]:
    """The group of a place: its id and body."""
    return derived_id(run, step, index), GroupOpen(run=run, step=step, index=index, task_id=f"task-{step}-{index}")


def rollout(run: str, step: int, index: int, slot: int) -> RolloutItem:
    """The rollout of a slot."""
    id = derived_id(run, step, index, slot)
    common = {"run": run, "group": derived_id(run, step, index), "slot": slot}
    if chance(id, "aborted") < ABORTED:
        return RolloutItem(id=id, body=RolloutReport(**common, status="aborted", reason="executor-failed"))
    body = RolloutReport(
        **common,
        planner_trajectory=derived_id(id, "planner"),
        r_format=1,
        r_correct=chance(id, "correct"),
        executor_trajectories=tuple(derived_id(id, "call", n) for n in range(int(4 * chance(id, "calls")))),
        tokens=52,
        version=VERSION,
    )
    return RolloutItem(id=id, body=body)


def scores(run: str, step: int, index: int, slot: int) -> list[TrajectoryItem]:
    """The trajectories of a slot, as the executor submits them."""
    parent = rollout(run, step, index, slot)
    return [_score(run, parent.id, id) for id in parent.body.executor_trajectories]


def _score(run: str, rollout_id: str, id: str) -> TrajectoryItem:
    common = {"run": run, "rollout": rollout_id, "tokens": 40, "version": VERSION}
    if chance(id, "unscored") < UNSCORED:
        return TrajectoryItem(id=id, body=TrajectoryReport(**common, status="unscored", reason="judge-failed"))
    return TrajectoryItem(id=id, body=TrajectoryReport(**common, r_format=1, r_expert=chance(id, "expert")))
