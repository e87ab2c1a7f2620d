"""What the calls of the sync service are about: things of RUN, and a valid body for each call that takes one."""

import json
from typing import Any

from tests.integration.access.matrix import RUN
from tests.integration.sync.builder import Builder, checksum

Bodies = dict[str, dict[str, Any]]


async def things(build: Builder) -> tuple[dict[str, str], Bodies]:
    """Ids by the places of paths, and bodies by calls."""
    rollout, _ = await build.fill(1)
    score = build.scores(rollout)[0]
    (delivery, *_) = await build.sql("SELECT id FROM deliveries")
    ids = {"group": rollout.body.group, "rollout": rollout.id, "trajectory": score.id, "delivery": delivery.id}
    spec, as_rollout, as_score = (json.loads(sent.model_dump_json()) for sent in (build.spec, rollout, score))
    opening = {"run": RUN, "step": 1, "index": 0, "task_id": "t"}
    claim = {"worker": "planner-1", "epoch": 1}
    weights = {"worker": "planner-1", "updates": 0, "checksum": checksum("initial")}
    ack = {
        "epoch": 1,
        "step": 1,
        "outcome": "trained",
        "updates": 1,
        "fates": {rollout.id: 1},
        "statistics": {"a": 0.5},
    }
    stream = "POST /v1/runs/{run}/streams/{role}:"
    return ids, {
        "PUT /v1/runs/{run}": spec,
        "PUT /v1/groups/{group}": opening,
        "POST /v1/groups:batch": {"items": [{"id": ids["group"], "body": opening}]},
        "PUT /v1/rollouts/{rollout}": as_rollout["body"],
        "POST /v1/rollouts:batch": {"items": [as_rollout]},
        "PUT /v1/trajectories/{trajectory}": as_score["body"],
        "POST /v1/trajectories:batch": {"items": [as_score]},
        f"{stream}resume": weights | {"step": 0, "pending_ack": ack},
        f"{stream}lease": claim | {"wait_s": 0.0},
        f"{stream}renew": claim,
        f"{stream}release": claim,
        f"{stream}ack": ack,
        "PUT /v1/runs/{run}/policies/{role}/{epoch}.{step}": weights,
        "PUT /v1/runs/{run}/workers/{worker}": {"role": "planner", "url": "http://here", "device": "cpu", "doing": ""},
    }
