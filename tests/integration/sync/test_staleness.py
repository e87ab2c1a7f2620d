"""Who may open what (m-grpo.md, section 6): t <= 1 + staleness + min(live step over the roles that train)."""

import pytest

from shared.errors import StalenessBound
from tests.integration.sync.builder import Builder, Trainer


async def trainers(build: Builder) -> tuple[Trainer, Trainer]:
    """Both trainers, at step 0."""
    both = build.trainer("planner"), build.trainer("executor")
    for trainer in both:
        await trainer.resume()
        await trainer.confirm(0)
    return both


async def horizon(build: Builder) -> tuple[int, int, int]:
    """open_through, and the live steps of planner and executor."""
    status = await build.client.status(build.run)
    return status.open_through, status.roles["planner"].live_step, status.roles["executor"].live_step


@pytest.mark.parametrize("staleness", [0, 1, 2])
async def test_a_step_beyond_the_bound_is_refused(build: Builder, staleness: int) -> None:
    await build.declare(steps=9, staleness=staleness)
    await build.open(1 + staleness, 0)
    with pytest.raises(StalenessBound, match=f"only up to {1 + staleness}") as refusal:
        await build.open(2 + staleness, 0)
    assert refusal.value.retryable


async def test_the_slower_role_holds_the_planner(build: Builder) -> None:
    await build.declare(steps=9, staleness=0)
    planner, executor = await trainers(build)
    await build.fill(1)
    await planner.train()
    assert await horizon(build) == (1, 1, 0)
    with pytest.raises(StalenessBound):
        await build.open(2)
    await executor.train()
    assert await horizon(build) == (2, 1, 1)
    await build.open(2)


async def test_acked_weights_count_once_the_samplers_have_them(build: Builder) -> None:
    await build.declare(steps=9, staleness=0)
    planner, executor = await trainers(build)
    await build.fill(1)
    await planner.train()
    await executor.ack(await executor.delivery())
    assert await horizon(build) == (1, 1, 0)
    await executor.confirm(1)
    assert await horizon(build) == (2, 1, 1)


async def test_a_skipped_step_needs_no_confirmation(build: Builder) -> None:
    await build.declare(steps=9, staleness=0)
    planner, executor = await trainers(build)
    for step in (1, 2):
        await build.fill(step)
        await planner.train(skipped="no-live-row")
        await executor.train(skipped="no-live-row")
        assert await horizon(build) == (step + 1, step, step)


async def test_a_skipped_step_does_not_jump_over_weights_that_are_not_loaded(build: Builder) -> None:
    await build.declare(steps=9, staleness=1)
    planner, executor = await trainers(build)
    await build.fill(1)
    await build.fill(2)
    for _ in range(2):
        await planner.train()
    await executor.ack(await executor.delivery())
    await executor.train(skipped="no-live-row")
    assert await horizon(build) == (2, 2, 0)
    await executor.confirm(1)
    assert await horizon(build) == (4, 2, 2)


async def test_a_resume_sets_the_live_step_once_the_samplers_have_reloaded(build: Builder) -> None:
    await build.declare(steps=9, staleness=2)
    planner, executor = await trainers(build)
    for step in (1, 2, 3):
        await build.fill(step)
        await planner.train()
    await executor.train()
    await executor.train()
    assert await horizon(build) == (5, 3, 2)
    pending = executor.ack_of(await executor.delivery())
    await executor.resume(3, pending=pending)
    assert await horizon(build) == (5, 3, 2)
    await executor.confirm(3)
    assert await horizon(build) == (6, 3, 3)
    await executor.resume(1)
    assert await horizon(build) == (4, 3, 1)
    await executor.confirm(1)
    assert await horizon(build) == (4, 3, 1)
    with pytest.raises(StalenessBound):
        await build.open(5)


async def test_nothing_lies_beyond_the_last_step(build: Builder) -> None:
    await build.declare(steps=2, staleness=9)
    assert (await build.client.status(build.run)).open_through == 2


async def test_the_status_says_who_waits_for_whom(build: Builder) -> None:
    await build.declare(steps=9, staleness=1)
    planner, executor = await trainers(build)
    await build.fill(1)
    await build.fill(2, scored=False)
    await planner.train()
    await planner.train()
    await executor.release()
    waits = (await build.client.status(build.run)).waiting_for
    assert "executor has no lease; 1 batch is ready" in waits
    assert "planner waits for step 3: executor live step is 0" in waits
    await executor.resume()
    await executor.train()
    waits = (await build.client.status(build.run)).waiting_for
    assert "executor waits for step 2: scores of 2 groups" in waits
    assert not any(wait.startswith("planner") for wait in waits)
    await build.open(3)
    await build.open(3, 1)
    assert "planner waits for step 3: 2 groups are open" in (await build.client.status(build.run)).waiting_for
