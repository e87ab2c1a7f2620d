"""The tables of docs/protocol.md that restate the code: the state machines, and the statistics of an ack."""

import re
from typing import get_args

import pytest

from executor_server.batch import executor_batch
from planner_server.batch import planner_batch
from shared.policy.batches import Example
from shared.policy.config import TrainerConfig
from shared.policy.training import Trainer
from shared.schemas import ROLES, Role
from shared.schemas.events import EventKind
from shared.schemas.invocation import Split
from shared.schemas.run import TERMS, Budget, PlannerReward, RunSpec
from shared.serving.batch import Batch
from sync_service import states
from sync_service.operations.audit import Action
from tests.integration.docs.protocol_page import PAGE, TABLES, in_code
from tests.unit.policy.tiny import build_model
from tests.unit.servers.deliveries import delivery, group, rollout, stored, trajectory, tree

MACHINES = {
    "run": states.RUN,
    "group": states.GROUP,
    "scoring": states.SCORING,
    "trajectory": states.TRAJECTORY,
    "delivery": states.DELIVERY,
}


def test_the_moves_are_those_of_the_state_machines():
    described = {
        table[0][0].removesuffix(" from"): sorted((in_code(row[0]), in_code(row[1])) for row in table[1:])
        for table in TABLES
        if table[0][0].endswith(" from")
    }
    moves = {
        name: sorted((state, target) for state, targets in machine.items() for target in targets)
        for name, machine in MACHINES.items()
    }
    assert described == moves
    assert not any(states.ROLLOUT.values())


def test_the_events_and_the_actions_are_those_of_the_code():
    (table,) = [table for table in TABLES if table[0] == ["event", "body", "when"]]
    assert sorted(in_code(row[0]) for row in table[1:]) == sorted(get_args(EventKind))
    (actions,) = re.findall(r"The actions are (.*?)\.\n", PAGE.read_text(), re.DOTALL)
    assert sorted(re.findall(r"`([a-z-]+)`", actions)) == sorted(get_args(Action))


@pytest.mark.parametrize("role", ROLES)
def test_the_statistics_are_those_of_the_trainers(role: Role):
    (table,) = [table for table in TABLES if table[0] == ["name", "role", "meaning"]]
    described = {name for row in table[1:] if row[1] in (role, "both") for name in re.findall(r"`(\w+)`", row[0])}
    assert described == set(batch(role).statistics) | trainer_statistics() | evaluation_statistics(role)


def batch(role: Role) -> Batch:
    """A batch in which every statistic exists: two rollouts that differ, each with a scored call; all reward terms.

    In the planner's one has a delegation of the same policy below it.
    """
    scores = {f"r_{term}": 1.0 for term in TERMS}
    right = rollout(101, 1.0, (trajectory(201, 0.5),), **scores)
    wrong = rollout(102, 0.0, (trajectory(202, 0.0),), **scores)
    shares = {"correct": 0.6} | dict.fromkeys(TERMS, 0.1)
    spec = RunSpec(steps=9, planner_reward=PlannerReward(**shares, budget=Budget(calls=8)))
    view = delivery(role, group(1, right, wrong))
    make = planner_batch if role == "planner" else executor_batch
    below = tree(101, 301) if role == "planner" else {}
    return make(view, stored(view) | below, spec, 5)


def evaluation_statistics(role: Role) -> set[str]:
    """What the planner's step tells of evaluations (`Evaluations.accuracies`)."""
    return {f"accuracy_{split}" for split in get_args(Split)} if role == "planner" else set()


def trainer_statistics() -> set[str]:
    """What one update says of itself; the policy adds the rate."""
    trainer = Trainer(build_model(), TrainerConfig(), total_steps=9)
    accumulated = trainer.accumulate([Example("t", [2, 3, 4], [0, 1, 1], [0.0, -4.0, -4.0], 1.0, 1.0)], 1)
    assert accumulated is not None
    return {*accumulated, *trainer.apply(1), "tokens_per_second"}
