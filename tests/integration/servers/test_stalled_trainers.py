"""One trainer stands still: the other goes on to the staleness bound, then waits, and the status says for whom."""

import signal
from pathlib import Path

import pytest

from .processes import worker
from .trio import answers, calls, trio

STEPS = 3


@pytest.mark.parametrize(("still", "other"), [("planner", "executor"), ("executor", "planner")])
async def test_the_other_role_goes_to_the_bound_and_waits(
    postgres_url: str, redis_url: str, tmp_path: Path, still: str, other: str
):
    async with trio(postgres_url, redis_url, tmp_path) as servers:
        await servers.start_executor(answers())
        await servers.start_planner({**answers(), **calls("planner")})
        trainer = worker(tmp_path / still, "trainer")
        trainer.send_signal(signal.SIGSTOP)
        try:
            await servers.declare(steps=STEPS, groups_per_step=4, rollouts_per_group=8)
            stalled = await servers.status_where(lambda status: status.roles[other].live_step == 2)
        finally:
            trainer.send_signal(signal.SIGCONT)
        assert (stalled.roles[other].acked_step, stalled.roles[still].live_step) == (2, 0)
        assert stalled.open_through == 2
        assert any(still in who for who in stalled.waiting_for), stalled.waiting_for
        status = await servers.finished()
        assert {role.acked_step for role in status.roles.values()} == {STEPS}
        second = next(s for s in await servers.client.steps(servers.run) if (s.step, s.role) == (2, still))
        assert second.statistics["staleness_max"] == 1  # sampled before this trainer's first step
