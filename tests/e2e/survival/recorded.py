"""A recorded run: every group, rollout, score and trajectory of it, a pure function of a seed.

All of it is there before a trainer starts, so that nothing is sampled, and what the trainers make of it can be compared
bit by bit. Its groups hold what alignment is about: rollouts of no call, of fewer than `d_max` and of more, invalid
formats, an unscored call, an aborted slot; one step's groups are all dead.
"""

import random
import uuid
from dataclasses import dataclass, field
from pathlib import Path

from executor_server.scoring import SCORE
from shared.client import SyncClient
from shared.ids import derived_id
from shared.policy.store import TrajectoryStore
from shared.policy.types import Trajectory
from shared.schemas import ROLES, PolicyVersion, Role
from shared.schemas.rollout import GroupOpen, RolloutItem, RolloutReport, TrajectoryItem, TrajectoryReport
from shared.schemas.run import RunSpec
from tests.e2e.survival.orders import DEAD_STEP, STEPS
from tests.parity_environment import words

RUN = "recorded"
GROUPS, ROLLOUTS, D_MAX = 2, 4, 2
STORE_BYTES = 2**26
VERSION = PolicyVersion(epoch=1, step=0, updates=0)


def spec(roles: tuple[Role, ...]) -> RunSpec:
    """Every step may be opened at once, and no row is too old."""
    sizes = {"steps": STEPS, "groups_per_step": GROUPS, "rollouts_per_group": ROLLOUTS, "d_max": D_MAX}
    return RunSpec(**sizes, staleness=STEPS, trained_roles=roles, seed=5, max_attempts=1000)


@dataclass
class Recorded:
    """What is submitted, in order, and what each role's store holds."""

    groups: list[tuple[str, GroupOpen]] = field(default_factory=list)
    rollouts: list[RolloutItem] = field(default_factory=list)
    scores: list[TrajectoryItem] = field(default_factory=list)
    stored: dict[Role, list[Trajectory]] = field(default_factory=lambda: {role: [] for role in ROLES})

    async def submit(self, client: SyncClient, roles: tuple[Role, ...]) -> None:
        """Declare the run and report all of it."""
        await client.declare_run(RUN, spec(roles))
        for group, body in self.groups:
            await client.open_group(group, body)
        results = [await client.submit_rollouts(self.rollouts), await client.submit_trajectories(self.scores)]
        assert all(item.accepted for result in results for item in result.items), results

    async def store(self, role: Role, folder: Path) -> None:
        """Put the role's trajectories where its server looks for them."""
        store = TrajectoryStore(folder / "trajectories.sqlite", STORE_BYTES)
        for trajectory in self.stored[role]:
            await store.put(trajectory)
        store.close()


def record(seed: int) -> Recorded:
    """The run of that seed."""
    draws = random.Random(seed)
    recorded = Recorded()
    for step in range(1, STEPS + 1):
        for index in range(GROUPS):
            group = derived_id(RUN, "group", step, index)
            recorded.groups.append((group, GroupOpen(run=RUN, step=step, index=index, task_id=f"task-{step}-{index}")))
            for slot in range(ROLLOUTS):
                _record_slot(recorded, draws, group, slot, dead=step == DEAD_STEP)
    return recorded


def _record_slot(recorded: Recorded, draws: random.Random, group: str, slot: int, *, dead: bool) -> None:
    if not dead and draws.random() < 0.05:
        body = RolloutReport(run=RUN, group=group, slot=slot, status="aborted", reason="executor-failed")
        recorded.rollouts.append(RolloutItem(id=_id(draws), body=body))
        return
    planner = _trajectory(draws, "planner")
    calls = [_trajectory(draws, "executor") for _ in range(draws.randrange(D_MAX + 3))]
    recorded.stored["planner"].append(planner)
    recorded.stored["executor"].extend(calls)
    body = RolloutReport(
        run=RUN,
        group=group,
        slot=slot,
        planner_trajectory=planner.id,
        r_format=1 if dead else int(draws.random() < 0.9),
        r_correct=0.0 if dead else float(draws.random() < 0.5),
        executor_trajectories=tuple(call.id for call in calls),
        tokens=len(planner.token_ids),
        version=VERSION,
    )
    recorded.rollouts.append(RolloutItem(id=planner.id, body=body))
    recorded.scores += [TrajectoryItem(id=call.id, body=_score(draws, planner.id, call, dead)) for call in calls]


def _score(draws: random.Random, rollout: str, call: Trajectory, dead: bool) -> TrajectoryReport:
    facts = {"run": RUN, "rollout": rollout, "tokens": len(call.token_ids), "version": VERSION}
    if dead:
        return TrajectoryReport(**facts, r_format=1, r_expert=0.5)
    if draws.random() < 0.05:
        return TrajectoryReport(**facts, status="unscored", reason="judge-failed")
    return TrajectoryReport(**facts, r_format=int(draws.random() < 0.9), r_expert=draws.random())


def _trajectory(draws: random.Random, role: Role) -> Trajectory:
    """A prompt, then turns of sampled and of fed tokens."""
    length, known = draws.randrange(8, 40), len(words(role))
    mask = [0, 0, 1, *(int(draws.random() < 0.6) for _ in range(length - 3))]
    return Trajectory(
        id=_id(draws),
        run=RUN,
        role=role,
        token_ids=[draws.randrange(1, known) for _ in range(length)],
        mask=mask,
        logprobs=[-4 * draws.random() if sampled else 0.0 for sampled in mask],
        version=VERSION,
        facts={SCORE: None},  # judged and reported: a server that starts has nothing to do for it
    )


def _id(draws: random.Random) -> str:
    return str(uuid.UUID(int=draws.getrandbits(128)))
