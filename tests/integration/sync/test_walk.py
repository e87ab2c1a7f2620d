"""The main road: a run from its declaration to its end."""

from tests.integration.sync.builder import Builder


async def test_a_run_is_trained_step_after_step_and_finishes(build: Builder) -> None:
    await build.declare()
    planner, executor = build.trainer("planner"), build.trainer("executor")
    for trainer in (planner, executor):
        await trainer.resume()
        await trainer.confirm(0)
    for step in (1, 2, 3):
        await build.fill(step)
        assert (await planner.train()).step == step
        assert (await executor.train()).step == step
    assert (await planner.lease()).finished
    assert (await executor.lease()).finished
    status = await build.client.status(build.run)
    assert status.state == "finished"
    assert status.groups == {"complete": 6}
    assert status.rollouts == {"reported": 12}
    assert status.trajectories == {"trained": 12}
    assert [(s.step, s.role, s.outcome) for s in await build.client.steps(build.run)] == [
        (step, role, "trained") for step in (1, 2, 3) for role in ("executor", "planner")
    ]
    assert (await build.client.steps(build.run, after=2))[0].step == 3
    assert status.waiting_for == ()
