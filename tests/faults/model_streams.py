"""The model's other half: deliveries and the two streams."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.faults.model import Model

ROLES = ("planner", "executor")
MAX_ATTEMPTS = 2


@dataclass
class Delivery:
    """A batch as one role sees it."""

    state: str = "waiting"
    epoch: int | None = None
    attempts: int = 0
    outcome: str | None = None


@dataclass
class Stream:
    """`live` says whether the lease of `worker` still lives; `confirmed` are the steps whose weights are loaded."""

    epoch: int = 0
    worker: str | None = None
    live: bool = False
    confirmed: frozenset[int] = frozenset()


class Streams:
    """Both streams of a run."""

    def __init__(self, run: Model) -> None:
        self._run = run
        self.of = {role: Stream() for role in ROLES}
        self.deliveries: dict[tuple[str, int], Delivery] = {}

    def open(self, step: int) -> None:
        """The first group of a step is opened."""
        for role in ROLES:
            self.deliveries.setdefault((role, step), Delivery())

    def make_ready(self, role: str, step: int) -> None:
        """The batch is cut and, for the executor, sealed."""
        if self.deliveries[role, step].state == "waiting":
            self.deliveries[role, step].state = "ready"

    def _steps(self, role: str) -> dict[int, Delivery]:
        return {step: delivery for (whose, step), delivery in sorted(self.deliveries.items()) if whose == role}

    def acked_step(self, role: str) -> int:
        """All deliveries up to it are acked."""
        acked = 0
        for step, delivery in self._steps(role).items():
            if delivery.state != "acked":
                break
            acked = step
        return acked

    def live_step(self, role: str) -> int:
        """The highest acked step that is confirmed, and the skipped ones right after it."""
        acked = self.acked_step(role)
        live = max((step for step in self.of[role].confirmed if step <= acked), default=0)
        for step, delivery in self._steps(role).items():
            if live < step <= acked:
                if delivery.outcome != "skipped":
                    break
                live = step
        return live

    @property
    def slowest_live_step(self) -> int:
        """What the staleness rule counts from."""
        return min(map(self.live_step, ROLES))

    def resume(self, role: str, worker: str, step: int) -> int | str:
        """Take the stream from `step`, without a pending ack; the new epoch."""
        stream = self.of[role]
        if stream.live and stream.worker != worker:
            return "stream-held"
        if step > self.acked_step(role):
            return "checkpoint-ahead"
        if stream.worker is not None:
            self._vacate(role, failed=not stream.live)
        stream.epoch, stream.worker, stream.live = stream.epoch + 1, worker, True
        for at, delivery in self._steps(role).items():
            if at > step and delivery.state == "acked":
                delivery.state, delivery.outcome = "ready", None
                self._forget(role, at)
                self._run.state = "draining" if self._run.state == "finished" else self._run.state
        stream.confirmed = frozenset(at for at in stream.confirmed if at <= step)
        self.finish_if_done()
        return stream.epoch

    def _forget(self, role: str, step: int) -> None:
        if role == "executor":
            for name in self._run.batch(role, step):
                row = self._run.trajectories[name]
                if row.state in ("trained", "dropped"):
                    row.state = row.status

    def _vacate(self, role: str, *, failed: bool) -> None:
        self.of[role].worker, self.of[role].live = None, False
        for delivery in self._steps(role).values():
            if delivery.state == "leased":
                delivery.attempts += failed
                delivery.state = "dead" if failed and delivery.attempts >= MAX_ATTEMPTS else "ready"

    def expire_all(self) -> None:
        """The reaper: leases that are over."""
        for role, stream in self.of.items():
            if stream.worker is not None and not stream.live:
                self._vacate(role, failed=True)

    def _fault(self, role: str, worker: str | None, epoch: int) -> str | None:
        stream = self.of[role]
        if epoch != stream.epoch or not stream.live or worker not in (None, stream.worker):
            return "lease-lost"
        return None

    def lease(self, role: str, worker: str, epoch: int) -> int | str | None:
        """The step of the next delivery, "finished", or None: ask again."""
        if fault := self._fault(role, worker, epoch):
            return fault
        if self._run.state == "finished":
            return "finished"
        waiting = [(step, delivery) for step, delivery in self._steps(role).items() if delivery.state != "acked"]
        if not waiting:
            return "finished" if self._run.state == "draining" else None
        step, delivery = waiting[0]
        is_next = step == self.acked_step(role) + 1 or self._run.state == "draining"
        if delivery.state in ("ready", "leased") and is_next:
            delivery.state, delivery.epoch = "leased", epoch
            return step
        return None

    def ack(self, role: str, epoch: int, step: int, outcome: str) -> str:
        """Ack a step: every row that can be trained on is, or all are skipped."""
        if epoch != self.of[role].epoch:
            return "lease-lost"
        delivery = self.deliveries.get((role, step))
        if delivery is None:
            return "invalid-input"
        if delivery.state == "acked" and delivery.epoch == epoch:
            return "ok" if delivery.outcome == outcome else "body-conflict"
        if not self.of[role].live:
            return "lease-lost"
        if delivery.state != "leased":
            return "invalid-transition"
        delivery.state, delivery.epoch, delivery.outcome = "acked", epoch, outcome
        if role == "executor":
            for name, trainable in self._run.batch(role, step).items():
                row = self._run.trajectories[name]
                if row.state in ("scored", "unscored"):
                    row.state = "trained" if outcome == "trained" and trainable else "dropped"
        self.finish_if_done()
        return "ok"

    def publish(self, role: str, epoch: int, step: int) -> str:
        """The samplers have loaded a step."""
        if epoch != self.of[role].epoch:
            return "lease-lost"
        if step > self.acked_step(role):
            return "conflict"
        self.of[role].confirmed |= {step}
        return "ok"

    def release(self, role: str, worker: str, epoch: int, failed: bool) -> str:
        """Give the stream back."""
        stream = self.of[role]
        if epoch != stream.epoch:
            return "lease-lost"
        if stream.worker is None:
            return "ok"
        if worker != stream.worker:
            return "lease-lost"
        self._vacate(role, failed=failed or not stream.live)
        return "ok"

    def finish_if_done(self) -> None:
        """A run that drains ends when everything is acked."""
        if self._run.state == "draining" and all(d.state == "acked" for d in self.deliveries.values()):
            self._run.state = "finished"
