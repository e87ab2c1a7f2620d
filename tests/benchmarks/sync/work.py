"""What a rollout is on the wire: its own report and the scored trajectories that it caused, as plain JSON."""

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shared.ids import new_id

VERSION = {"epoch": 1, "step": 0, "updates": 0}


@dataclass(frozen=True, slots=True)
class Item:
    """One submission: an id and a body."""

    id: str
    body: dict

    def encoded(self) -> bytes:
        """The body alone, as a PUT sends it."""
        return json.dumps(self.body, separators=(",", ":")).encode()

    def whole(self) -> bytes:
        """Id and body, as an item of a batch."""
        return json.dumps({"id": self.id, "body": self.body}, separators=(",", ":")).encode()


@dataclass(frozen=True, slots=True)
class Step:
    """The groups of a step, their rollouts in the order of the groups, and the scores in the order of the rollouts."""

    run: str
    number: int
    groups: Sequence[str]
    rollouts: Sequence[Item]
    scores: Sequence[Item]

    def opening(self) -> Iterator[Item]:
        """The body that opens each group."""
        for index, group in enumerate(self.groups):
            yield Item(group, {"run": self.run, "step": self.number, "index": index, "task_id": f"task-{index}"})


def make_step(run: str, number: int, groups: int, rollouts_per_group: int, calls: int) -> Step:
    """A step with new ids and random rewards."""
    ids = [new_id() for _ in range(groups)]
    rollouts = [_rollout(run, group, slot, calls) for group in ids for slot in range(rollouts_per_group)]
    scores = [_score(run, rollout.id, id) for rollout in rollouts for id in rollout.body["executor_trajectories"]]
    return Step(run, number, ids, rollouts, scores)


def _rollout(run: str, group: str, slot: int, calls: int) -> Item:
    body = {
        "run": run,
        "group": group,
        "slot": slot,
        "planner_trajectory": new_id(),
        "r_format": 1,
        "r_correct": float(random.random() < 0.5),
        "executor_trajectories": [new_id() for _ in range(calls)],
        "tokens": random.randrange(200, 2000),
        "version": VERSION,
    }
    return Item(new_id(), body)


def _score(run: str, rollout: str, id: str) -> Item:
    body = {
        "run": run,
        "rollout": rollout,
        "r_format": 1,
        "r_expert": round(random.random(), 3),
        "tokens": random.randrange(50, 500),
        "version": VERSION,
    }
    return Item(id, body)


def batches(items: Sequence[Item], size: int) -> list[bytes]:
    """The bodies of the `:batch` requests that hold `items`."""
    parts = (items[at : at + size] for at in range(0, len(items), size))
    return [
        json.dumps({"items": [{"id": i.id, "body": i.body} for i in part]}, separators=(",", ":")).encode()
        for part in parts
    ]
