"""Runs as a page may show them, made through the real API: one that goes on, stalled, a new one, a long one.

Everything of a scene happens in a moment; `spread` then moves it back in time, as if each step had taken its time.
"""

import math
import random
from dataclasses import dataclass, field

from shared.schemas import PolicyVersion, Role
from shared.schemas.rollout import RolloutItem
from shared.schemas.stream import Ack, DeliveryView, Heartbeat
from tests.integration.sync.builder import Builder, Trainer

GAIN = {"planner": (0.22, 0.55), "executor": (0.35, 0.4)}
"""The reward at the start, and what is gained in the end."""


@dataclass
class Scene:
    """One run, trained step by step."""

    build: Builder
    seed: int = 5
    trainers: dict[Role, Trainer] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)

    async def begin(self, **spec: object) -> None:
        """Declare the run; both trainers take their streams."""
        await self.build.declare(**spec)
        for role in self.build.spec.trained_roles:
            self.trainers[role] = self.build.trainer(role)
            await self.trainers[role].resume()

    async def fill(self, step: int, *, scored: bool = True) -> list[RolloutItem]:
        """Every group of a step, with the calls that rollouts make; the last slot of a group may be aborted."""
        rollouts = []
        for index in range(self.build.spec.groups_per_step):
            group = await self.build.open(step, index)
            rollouts += [self._rollout(group, slot, step) for slot in range(self.build.spec.rollouts_per_group)]
        await self.build.report(*rollouts)
        scores = [score for rollout in rollouts for score in self.build.scores(rollout)]
        if scored and scores:
            await self.build.send(scores)
        return rollouts

    def _rollout(self, group: str, slot: int, step: int) -> RolloutItem:
        last = slot == self.build.spec.rollouts_per_group - 1
        if last and self.build.spec.min_rollouts < self.build.spec.rollouts_per_group and self.chance.random() < 0.08:
            return self.build.aborted(group, slot, "executor-failed")
        calls = min(12, int(self.chance.gammavariate(2.2, 1.3)))
        correct = float(self.chance.random() < self._mean("planner", step))
        return self.build.rollout(group, slot, calls=calls, r_correct=correct)

    def _mean(self, role: Role, step: int) -> float:
        start, gain = GAIN[role]
        return start + gain * (1 - math.exp(-2.5 * step / self.build.spec.steps))

    async def train(self, role: Role, *, confirm: bool = True) -> None:
        """The role's next step, with statistics as our trainers send them."""
        trainer = self.trainers[role]
        delivery = await trainer.delivery()
        ack = trainer.ack_of(delivery)
        told = ack.model_copy(update=self._told(role, delivery, ack))
        trainer.updates = delivery.step
        await trainer.client.ack(trainer.run, role, told)
        if confirm:
            await trainer.confirm(delivery.step)

    def _told(self, role: Role, delivery: DeliveryView, ack: Ack) -> dict[str, object]:
        rollouts = [rollout for group in delivery.groups for rollout in group.rollouts]
        rows, step = len(ack.fates), delivery.step
        mean = min(1.0, max(0.0, self._mean(role, step) + self.chance.gauss(0, 0.03)))
        stale = min(self.build.spec.staleness, step - 1)
        fresh = rows * 2 // 3 if stale else rows
        statistics = {
            "groups": float(len(delivery.groups)),
            "groups_dead": float(self.chance.random() < 0.3),
            "reward_mean": mean,
            "reward_deviation": 0.32 - 0.1 * step / self.build.spec.steps,
            "correct_mean": mean,
            "rows": float(rows),
            "rows_distinct": float(rows),
            "clip_fraction": 0.02 + 0.02 * self.chance.random(),
            "gap_mean": 0.004 + 0.002 * self.chance.random(),
            "gap_max": 0.05 + 0.03 * self.chance.random(),
            "kl": 0.01 * self.chance.random(),
            "gradient_norm": 0.4 + 0.2 * self.chance.random(),
        }
        histograms = {"staleness": {"0": fresh, str(stale): rows - fresh} if stale else {"0": rows}}
        if role == "executor":
            statistics |= self._aligned(rollouts)
            calls: dict[str, int] = {}
            for rollout in rollouts:
                made = str(len(rollout.executor_trajectories))
                calls[made] = calls.get(made, 0) + 1
            histograms["calls_per_rollout"] = calls
        return {"statistics": statistics, "histograms": histograms}

    def _aligned(self, rollouts: list) -> dict[str, float]:
        calls, d_max = [len(rollout.executor_trajectories) for rollout in rollouts], self.build.spec.d_max
        return {
            "rows_copied": float(sum(d_max - d for d in calls if 0 < d < d_max)),
            "rows_dropped": float(sum(max(0, d - d_max) for d in calls)),
            "rows_masked": float(sum(d_max for d in calls if d == 0)),
            "trajectories": float(sum(calls)),
            "trajectories_unscored": 0.0,
        }

    async def steps(self, last: int, first: int = 1) -> None:
        """Steps in turn, by every role."""
        for step in range(first, last + 1):
            await self.fill(step)
            for role in self.trainers:
                await self.train(role)

    async def beat(self, worker: str, role: Role, **changes: object) -> None:
        """A worker's heartbeat."""
        trainer = self.trainers.get(role)
        version = PolicyVersion(epoch=trainer.epoch, step=trainer.updates, updates=trainer.updates) if trainer else None
        body = {"role": role, "url": f"http://10.4.0.{7 if role == 'planner' else 9}:8701", "version": version}
        await self.build.client.heartbeat(self.build.run, worker, Heartbeat(**(body | changes)))

    async def spread(self, step_s: float) -> None:
        """Move everything of the run back, so that each step took `step_s` and the last thing happened just now."""
        names = {"run": self.build.run, "s": step_s}
        done = "(SELECT max(step) FROM batches WHERE run = :run)"
        ago = f"make_interval(secs => :s * ({done} - {{step}} + {{late}}))"
        moves = {
            "groups": ("opened_at = now() - {0}, closed_at = now() - {1}", "step", (2.4, 1.7), "state <> 'open'"),
            "deliveries": (
                "ready_at = now() - {0}, leased_at = now() - {1}, acked_at = now() - {2}",
                "step",
                (1.6, 1.2, 0.5),
                "state = 'acked'",
            ),
            "policies": ("confirmed_at = now() - {0}", "step", (0.45,), "confirmed_at IS NOT NULL"),
        }
        for table, (change, step, lates, which) in moves.items():
            times = [ago.format(step=step, late=f"({late} + 0.3 * random())") for late in lates]
            await self.build.sql(f"UPDATE {table} SET {change.format(*times)} WHERE run = :run AND {which}", **names)
        behind = ago.format(step="coalesce((body ->> 'step')::int, 0)", late=0.4)
        await self.build.sql(f"UPDATE events SET at = now() - {behind} WHERE run = :run", **names)
        await self.build.sql(
            f"UPDATE runs SET declared_at = now() - {ago.format(step=0, late=3)} WHERE run = :run", **names
        )
