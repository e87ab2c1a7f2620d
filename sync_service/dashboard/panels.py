"""What the overview shows of a run, by panel. Plain values, that are equal as long as nothing in a panel has changed.

So a panel holds times, and never how long ago they were: the page counts that itself.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any

from sqlalchemy import Row
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.mgrpo.formula import formulas
from shared.schemas.verdict import Verdict
from sync_service import store
from sync_service.operations.verdict import verdict
from sync_service.service import Service
from sync_service.store.recent import Acked
from sync_service.store.runs import Run

Panel = dict[str, Any]
NAMES = ("verdict", "figures", "sync", "policies", "workers", "attention", "happened")
RECENT_STEPS = 20
"""The steps that latencies and staleness are taken over."""
DRAWN_STEPS = 60
OPEN_SHOWN = 8
DEAD_SHOWN = 20
NEXT_SHOWN = 4
WORKERS_SHOWN = 100
EVENTS_SHOWN = 8


async def read(connection: AsyncConnection, service: Service, name: str) -> dict[str, Panel]:
    """Every panel of the run. NotFound where there is no such run."""
    config = service.config
    run = await store.runs.find(connection, name)
    judged = await verdict(connection, name, config.stall_s, config.worker_lost_s)
    streams = await store.status.streams(connection, name)
    consumed = min(stream.acked_step for stream in streams)
    acked = await store.recent.acked(connection, name, DRAWN_STEPS)
    groups = await store.overview.funnel(connection, name, consumed)
    dead = await store.deliveries.page(connection, name, "dead", (0, ""), DEAD_SHOWN)
    opened = await store.overview.open_groups(connection, name, consumed, OPEN_SHOWN)
    workers = await store.workers.page(connection, name, "", WORKERS_SHOWN, config.worker_lost_s)
    happened, _ = await store.overview.events(connection, name, 2**63 - 1, EVENTS_SHOWN)
    return {
        "verdict": {**judged.model_dump(include={"state", "why", "advice"}), "run_state": run.state},
        "figures": _figures(run, judged, groups, acked),
        "sync": {
            "funnel": _funnel(groups),
            "discarded": _discarded(groups),
            "oldest": _row(await store.overview.oldest_unconsumed(connection, name, consumed)),
            "visible": await _visible(connection, name),
            "doorbell": service.doorbell.connected,
            "streams": [
                _row(stream, "role epoch acked_step live_step worker live ready waiting dead") for stream in streams
            ],
        },
        "policies": await _policies(connection, run, acked),
        "workers": {"workers": [worker.model_dump() for worker in workers]},
        "attention": {
            "dead": [row.model_dump() for row in dead],
            "opened": [_row(row) for row in opened],
            "next": [_row(row) for row in await store.overview.unacked(connection, name, NEXT_SHOWN)],
            "slots": run.spec.rollouts_per_group,
        },
        "happened": {"events": [_row(row) for row in happened]},
    }


def _row(row: Row | None, columns: str = "") -> dict[str, Any]:
    """A row as plain values, times as ISO text; empty where there is none."""
    if row is None:
        return {}
    values = row._mapping
    named = columns.split() or values
    return {name: _plain(values[name]) for name in named}


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value


def _figures(run: Run, judged: Verdict, groups: Sequence[Row], acked: Sequence[Acked]) -> Panel:
    """The numbers at the top, and the reward of the last steps of each role."""
    rewards = {
        role: [
            step.statistics["reward_mean"] for step in acked if step.role == role and "reward_mean" in step.statistics
        ]
        for role in judged.roles
    }
    return {
        "state": run.state,
        "step": judged.step,
        "steps": judged.steps,
        "seconds_left": judged.seconds_left,
        "reported": sum(int(row.reported) for row in groups),
        "aborted": sum(int(row.final - row.reported) for row in groups),
        "idle": {role: None if pace.idle is None else round(pace.idle, 2) for role, pace in judged.roles.items()},
        "step_s": {role: pace.step_s for role, pace in judged.roles.items()},
        "rewards": rewards,
        "formulas": list(formulas(run.spec).values()),
    }


def _funnel(groups: Sequence[Row]) -> list[dict[str, Any]]:
    """By stage, how many groups are there `now`, and how many have come so far; `means` explains it."""
    complete = [row for row in groups if row.state == "complete"]
    stages = (
        ("open", groups, "opened by the planner; now: it still owes rollouts"),
        ("complete", complete, "every slot has a final rollout; now: scores are awaited"),
        (
            "sealed",
            [row for row in complete if row.scoring == "sealed"],
            "no score is awaited; now: not in a batch yet",
        ),
        ("batched", [row for row in complete if row.cut], "in a batch that is cut; now: a role has yet to train on it"),
        ("consumed", [row for row in complete if row.cut and row.consumed], "trained on, or skipped, by every role"),
    )
    so_far = [sum(row.groups for row in rows) for _, rows, _ in stages]
    discarded = sum(row.groups for row in groups if row.state == "discarded")
    left = [so_far[0] - discarded, *so_far[1:]]
    now = [max(0, a - b) for a, b in pairwise(left)]
    return [
        {"name": name, "now": count, "so_far": total, "means": means}
        for (name, _, means), total, count in zip(stages, so_far, [*now, None], strict=True)
    ]


def _discarded(groups: Sequence[Row]) -> list[tuple[str, int]]:
    counted: Counter[str] = Counter()
    for row in groups:
        if row.state == "discarded":
            counted[row.reason or "unknown"] += row.groups
    return counted.most_common()


async def _visible(connection: AsyncConnection, run: str) -> dict[str, Any]:
    rows = await store.overview.reward_to_visible(connection, run, RECENT_STEPS)
    return {role: _row(row, "p50 p99 groups") for role, row in sorted(rows.items(), reverse=True)}


async def _policies(connection: AsyncConnection, run: Run, acked: Sequence[Acked]) -> Panel:
    """The version that each role samples with, how far apart they are, and how old trained rows were."""
    live = await store.overview.live_versions(connection, run.name)
    steps = [row.step for row in live]
    return {
        "versions": [_row(row) for row in live],
        "skew": max(steps) - min(steps) if len(steps) == 2 else None,
        "bound": run.spec.staleness,
        "staleness": _staleness(acked),
    }


def _staleness(acked: Sequence[Acked]) -> dict[str, dict[int, int]]:
    """By role: how many rows of the last steps were so many optimiser steps old."""
    counted: dict[str, Counter[int]] = {}
    last = max((step.step for step in acked), default=0)
    for step in acked:
        if step.step > last - RECENT_STEPS:
            of_role = counted.setdefault(step.role, Counter())
            for label, count in step.histograms.get("staleness", {}).items():
                if label.isdecimal():
                    of_role[int(label)] += count
    return {role: dict(sorted(counts.items())) for role, counts in sorted(counted.items(), reverse=True) if counts}
