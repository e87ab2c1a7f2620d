"""The trainer's side of a role's stream: one delivery after another, each trained into the surviving weights once.

    async with asyncio.TaskGroup() as background:
        async for delivery in stream.deliveries():
            async with delivery:                         # its lease is renewed meanwhile; a lost one ends the step here
                ... its gradient; delivery.may_step; its optimiser step; checkpoint if due ...
                await delivery.ack(ack)                  # refused: nothing below runs; resumed from the last checkpoint
                delivery.confirm(updates, background)    # load into the sampler, then publish: this opens the next step

Beside a confirmation goes on what changes no weights: the next lease, batch and gradient. The next optimiser step and
ack wait for it. A confirmation that fails ends its task group; one that finds the lease lost ends the lease.

One lease holds the stream from the resume until its epoch is lost or the stream ends, and is renewed all that time.
A trainer that was away too long, was refused or restarted goes back to its last checkpoint, under a new epoch.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from types import TracebackType
from typing import Protocol

import structlog

from shared.client import SyncClient
from shared.errors import Conflict, InvalidTransition, LeaseLost, StreamHeld, TandemError
from shared.observer import Observer
from shared.policy.checkpoints import Checkpoint
from shared.policy.types import StepAbandoned
from shared.schemas import PolicyVersion, Role
from shared.schemas.stream import (
    Ack,
    DeliveryView,
    LeaseRequest,
    PolicyPublish,
    ReleaseRequest,
    ResumeRequest,
    StreamClaim,
)

log = structlog.get_logger()

LEASE_WAIT_S = 20.0
HELD_POLL_S = 1.0
RELEASE_S = 5.0
"""How long the end of a trainer may wait for the service to hear of it: a failed attempt must count."""
ABANDON_AT = 0.7
"""The share of a lease's time to live after which a trainer that could not renew gives the step up."""
RENEWALS_PER_TTL = 5
UNKNOWN_TTL_S = 1.0
"""What a lease's time to live is taken for until the service has told it: the first renewal goes out at once."""


class Weights(Protocol):
    """What a stream asks of the policy behind it."""

    def latest(self) -> Checkpoint | None:
        """The last checkpoint; None before the first."""
        ...

    async def restore(self, checkpoint: Checkpoint | None) -> None:
        """Put the trainer back to `checkpoint`, or to the initial weights."""
        ...

    async def checksum(self) -> str:
        """The checksum of the trainer's weights."""
        ...

    async def load_sampler(self, version: PolicyVersion) -> str:
        """Put the trainer's weights into the samplers; returns their checksum once they are loaded."""
        ...


class Stream:
    """The stream of one role of one run, held by one worker."""

    def __init__(
        self,
        sync: SyncClient,
        renewals: SyncClient,
        *,
        run: str,
        role: Role,
        worker: str,
        weights: Weights,
        clock: Callable[[], float] = time.monotonic,
        observer: Observer = Observer(),
    ) -> None:
        """`renewals` has connections of its own, so that no burst of other calls can starve a lease."""
        self.sync = sync
        self.renewals = renewals
        self.run = run
        self.role: Role = role
        self.worker = worker
        self.clock = clock
        self.observer = observer
        self.version: PolicyVersion | None = None
        self._weights = weights
        self._confirming: asyncio.Task[None] | None = None

    async def deliveries(self) -> AsyncIterator["Delivery"]:
        """The steps in order, until the run has no more; resumes first, and after each delivery that was lost."""
        while (lease := await self._resume()) is not None:
            try:
                request = LeaseRequest(worker=self.worker, epoch=lease.epoch, wait_s=LEASE_WAIT_S)
                while not lease.lost:
                    self.observer.enter("wait")
                    answer = await self.sync.lease(self.run, self.role, request)
                    if answer.delivery is not None:
                        lease.lives(self.clock(), answer.ttl_s)
                        self.observer.enter("train")
                        yield Delivery(self, lease, answer.delivery)
                    elif answer.finished:
                        await self.confirmed()
                        return
            except LeaseLost:
                continue
            finally:
                lease.end()

    async def confirmed(self) -> None:
        """Wait until no version is on its way to the samplers."""
        if self._confirming is not None and not self._confirming.done():
            self.observer.enter("load")
            await asyncio.wait({self._confirming})

    def confirm_beside(self, lease: "Lease", version: PolicyVersion, background: asyncio.TaskGroup) -> None:
        """`confirm`, as a task of `background`; where the lease is lost meanwhile, it is at its end."""
        name = f"confirm-{self.role}-{version.step}"
        self._confirming = background.create_task(self._confirm_beside(lease, version), name=name)

    async def confirm(self, version: PolicyVersion) -> None:
        """Load the trainer's weights into the samplers, then publish them as `version`."""
        checksum = await self._weights.load_sampler(version)
        body = PolicyPublish(worker=self.worker, updates=version.updates, checksum=checksum)
        await self.sync.publish(self.run, self.role, version.epoch, version.step, body)
        self.version = version

    async def _confirm_beside(self, lease: "Lease", version: PolicyVersion) -> None:
        try:
            await self.confirm(version)
        except LeaseLost as error:
            log.warning("confirmation-lost", role=self.role, step=version.step, detail=error.detail)
            lease.end()

    async def _resume(self) -> "Lease | None":
        """Back to the last checkpoint under a new epoch, leased; waits while another worker's lease is live.

        None where the run is over without what this checkpoint lacks: the samplers get its weights, and that is all.
        """
        await self.confirmed()
        self.observer.enter("resume")
        checkpoint = self._weights.latest()
        await self._weights.restore(checkpoint)
        checksum = checkpoint.checksum if checkpoint else await self._weights.checksum()
        step, updates = (checkpoint.step, checkpoint.updates) if checkpoint else (0, 0)
        request = ResumeRequest(
            worker=self.worker,
            step=step,
            updates=updates,
            checksum=checksum,
            pending_ack=checkpoint.pending_ack if checkpoint else None,
        )
        while True:
            try:
                lease = Lease(self, (await self.sync.resume(self.run, self.role, request)).epoch)
            except StreamHeld as held:
                log.info("stream-held", role=self.role, detail=held.detail)
                await asyncio.sleep(HELD_POLL_S)
                continue
            except InvalidTransition as over:
                log.warning("stream-over", role=self.role, detail=over.detail)
                await self._weights.load_sampler(PolicyVersion(epoch=0, step=step, updates=updates))
                return None
            self.observer.enter("load")
            try:
                await self.confirm(PolicyVersion(epoch=lease.epoch, step=step, updates=updates))
            except LeaseLost:
                lease.end()
            except BaseException:
                lease.end()
                raise
            else:
                log.info("stream-resumed", role=self.role, epoch=lease.epoch, step=step)
                return lease


class Lease:
    """The stream under one epoch, renewed in the background from the resume until `end`."""

    def __init__(self, stream: Stream, epoch: int) -> None:
        self.epoch = epoch
        self.lost = False
        self._stream = stream
        self._ttl_s = UNKNOWN_TTL_S
        self._safe_until = stream.clock()
        self._renewal = asyncio.create_task(self._renew(), name=f"renew-{stream.role}")

    def still_ours(self) -> bool:
        """Whether it surely lives."""
        return not self.lost and self._stream.clock() < self._safe_until

    def lives(self, since: float, ttl_s: float) -> None:
        """The service has prolonged it, at `since` or later; the margin of ABANDON_AT covers an answer's way back."""
        self._ttl_s = ttl_s
        self._safe_until = max(self._safe_until, since + ABANDON_AT * ttl_s)

    def end(self) -> None:
        """It is lost or not needed any more: nothing is renewed after this."""
        self.lost = True
        self._renewal.cancel()

    async def _renew(self) -> None:
        """Consumes the lease's time; waits a share of it; produces renewals; ends when the lease is lost."""
        stream, claim = self._stream, StreamClaim(worker=self._stream.worker, epoch=self.epoch)
        while True:
            sent = stream.clock()
            try:
                self.lives(sent, (await stream.renewals.renew(stream.run, stream.role, claim)).ttl_s)
            except Conflict as error:
                log.warning("lease-lost", role=stream.role, epoch=self.epoch, detail=error.detail)
                self.lost = True
                return
            except TandemError as error:
                log.warning("renewal-failed", role=stream.role, epoch=self.epoch, detail=error.detail)
            await asyncio.sleep(self._ttl_s / RENEWALS_PER_TTL)


class Delivery:
    """One step under its lease. As an async context manager it ends quietly on LeaseLost and on StepAbandoned."""

    def __init__(self, stream: Stream, lease: Lease, view: DeliveryView) -> None:
        self.view = view
        self._stream = stream
        self._lease = lease
        self._acked = False

    @property
    def step(self) -> int:
        """The step that this delivery is the batch of."""
        return self.view.step

    @property
    def epoch(self) -> int:
        """The epoch under which it is held."""
        return self.view.epoch

    async def may_step(self) -> bool:
        """Whether the lease surely lives, once the version before is confirmed; asked before an optimiser step."""
        await self._stream.confirmed()
        self._stream.observer.enter("train")
        return self.still_ours()

    def still_ours(self) -> bool:
        """Whether the lease surely lives."""
        return self._lease.still_ours()

    async def ack(self, ack: Ack) -> None:
        """The step is done; LeaseLost where it is refused. It goes out once the version before is confirmed."""
        await self._stream.confirmed()
        self._stream.observer.enter("ack")
        await self._stream.sync.ack(self._stream.run, self._stream.role, ack)
        self._acked = True
        self._stream.observer.acked(ack)

    def confirm(self, updates: int, background: asyncio.TaskGroup) -> None:
        """Load the new weights into the samplers, then publish them: the confirmation that opens the next step.

        It is a task of `background`. The optimiser step after this one waits for it, by `Stream.confirmed`.
        """
        version = PolicyVersion(epoch=self.epoch, step=self.step, updates=updates)
        self._stream.confirm_beside(self._lease, version, background)

    async def __aenter__(self) -> "Delivery":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is None:
            return False
        self._lease.end()
        if isinstance(error, LeaseLost | StepAbandoned):
            self._stream.observer.lost()
            log.warning("step-lost", role=self._stream.role, step=self.step, detail=error.detail)
            return True
        if not self._acked:
            with suppress(TandemError, TimeoutError):
                await self._release("cancelled" if isinstance(error, asyncio.CancelledError) else "trainer-failed")
        return False

    async def _release(self, reason: str) -> None:
        """Give the stream back. A stop that was asked for is no failed attempt."""
        error = None if reason == "cancelled" else reason
        body = ReleaseRequest(worker=self._stream.worker, epoch=self.epoch, error=error)
        async with asyncio.timeout(RELEASE_S):
            await self._stream.renewals.release(self._stream.run, self._stream.role, body)
