"""From a step to its rollouts, and from a rollout to what the executor did for it: scores, rewards, versions, fates."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import Row
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.errors import NotFound
from shared.mgrpo.rewards import correct_main, executor_reward, planner_reward
from shared.schemas.run import TERMS, RunSpec
from sync_service import store
from sync_service.store.views import version

MOST = 1024
"""Rollouts of a step, and trajectories of a rollout, that a page shows."""


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a trajectory. `count`: of how many of them, where several are told together."""

    kind: Literal["trained", "dropped", "waiting", "late", "unscored"]
    text: str
    count: int = 1


@dataclass(frozen=True, slots=True)
class Node:
    """A rollout's planner trajectory, or an invocation of the executor; `row` is what is recorded.

    `reward` is None before its scores are known. `named`: the rollout names it. `terms`: the scores of the optional
    terms that a planner's reward has.
    """

    row: Row
    reward: float | None
    version: dict[str, int] | None
    fate: Fate
    named: bool = True
    terms: Sequence[tuple[str, float]] = ()


@dataclass(frozen=True, slots=True)
class Tree:
    """A rollout and its invocations, in the order in which they were made."""

    root: Node
    invocations: Sequence[Node]

    def by_id(self) -> dict[str, Node]:
        """The invocations by their ids."""
        return {node.row.id: node for node in self.invocations}


def planner_fate(rollout: Row) -> Fate:
    """The fate of a rollout's planner trajectory."""
    if rollout.state == "late":
        return Fate("late", "late: its group was closed when it came")
    if rollout.state == "aborted":
        return Fate("dropped", f"aborted: {rollout.reason}")
    if rollout.multiplicity is not None:
        return Fate("trained", f"trained ×{rollout.multiplicity}")
    if rollout.fate_reason is not None:
        return Fate("dropped", f"not trained: {rollout.fate_reason}")
    if rollout.group_state == "discarded":
        return Fate("dropped", "not trained: its group is discarded")
    return Fate("waiting", "waiting for the step")


def executor_fate(trajectory: Row, count: int = 1) -> Fate:
    """The fate of an executor's trajectory; `count`, if so many have the same."""
    match trajectory.state:
        case "trained":
            return Fate("trained", f"trained ×{trajectory.multiplicity}", count)
        case "awaited":
            return Fate("waiting", "waiting for scores", count)
        case "scored":
            return Fate("waiting", "waiting for the step", count)
        case "unscored":
            return Fate("unscored", f"unscored: {trajectory.reason}", count)
        case "late":
            return Fate("late", "late: its group was sealed when it came", count)
        case "orphan":
            return Fate("dropped", f"orphan: {trajectory.reason}", count)
    kind = "unscored" if trajectory.reason in ("unscored", "awaited") else "dropped"
    return Fate(kind, f"dropped: {trajectory.reason}", count)


def rollout_node(spec: RunSpec, row: Row) -> Node:
    """A rollout with its reward (Eq. 4)."""
    known = row.r_format is not None and row.r_correct is not None
    reward = planner_reward(row.r_format, row.r_correct, spec.planner_reward, row) if known else None
    scores = [(name, score) for term in TERMS if (score := getattr(row, name := f"r_{term}")) is not None]
    return Node(row, reward, version(row), planner_fate(row), terms=scores)


def _invocation_node(spec: RunSpec, rollout: Row, row: Row) -> Node:
    """An invocation with its reward (Eq. 5), where the planner's correctness is known."""
    reward = None
    scored = row.r_format is not None and (row.r_format == 0 or row.r_expert is not None)
    if scored and rollout.r_format is not None and rollout.r_correct is not None:
        shared = correct_main(rollout.r_format, rollout.r_correct)
        reward = executor_reward(row.r_format, shared, row.r_expert, spec.executor_reward)
    return Node(row, reward, version(row), executor_fate(row), named=row.id in rollout.executor_trajectories)


async def tree(connection: AsyncConnection, run: str, rollout: str) -> Tree:
    """A rollout and what the executor did for it. NotFound where the run has no such rollout."""
    spec = (await store.runs.find(connection, run)).spec
    root = await store.steps.rollout(connection, run, rollout)
    if root is None:
        raise NotFound(f"run {run} has no rollout {rollout}")
    rows = await store.steps.trajectories(connection, root.group, rollout, MOST)
    place = {id: at for at, id in enumerate(root.executor_trajectories)}
    rows.sort(key=lambda row: (place.get(row.id, len(place)), row.id))
    return Tree(rollout_node(spec, root), [_invocation_node(spec, root, row) for row in rows])


@dataclass(frozen=True, slots=True)
class StepGroup:
    """A group of a step with its rollouts, each with the fates of what the executor did for it."""

    row: Row
    rollouts: Sequence[tuple[Node, Sequence[Fate]]]


async def step_groups(connection: AsyncConnection, run: str, step: int) -> list[StepGroup]:
    """The groups of a step. NotFound where the run has not opened it."""
    spec = (await store.runs.find(connection, run)).spec
    groups = await store.steps.groups(connection, run, step)
    if not groups:
        raise NotFound(f"run {run} has not opened step {step}")
    fates: dict[str, list[Fate]] = {}
    for row in await store.steps.fates(connection, run, step):
        fates.setdefault(row.rollout, []).append(executor_fate(row, row.count))
    of_group: dict[str, list[tuple[Node, Sequence[Fate]]]] = {}
    for row in await store.steps.rollouts(connection, run, step, MOST):
        of_group.setdefault(row.group, []).append((rollout_node(spec, row), fates.get(row.id, ())))
    return [StepGroup(group, of_group.get(group.id, ())) for group in groups]
