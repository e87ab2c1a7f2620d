"""Random calls against the real service and a pure model: the same answers, and the same tables after each."""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from tests.faults.model import GROUPS, SLOTS, STEPS, Model, Rollout
from tests.faults.model_streams import ROLES
from tests.faults.world import World

LONG = settings.get_current_profile_name() == "faults"  # pytest --hypothesis-profile=faults
ROLLOUTS = STEPS * GROUPS * SLOTS + 2

some_rollout = st.integers(0, ROLLOUTS - 1)
some_step = st.integers(1, STEPS)
some_role = st.sampled_from(ROLES)
some_worker = st.sampled_from(("one", "two"))
current_or_stale = st.sampled_from((0, 0, 0, -1))
seldom = st.sampled_from((False, False, False, True))


class Calls(RuleBasedStateMachine):
    """Rollout n is of the group and slot that its number says; its trajectories are n/0, n/1 and n/2."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world, self.model = world, Model()

    @rule(step=some_step, index=st.integers(0, GROUPS - 1), rival=seldom)
    def open_group(self, step: int, index: int, rival: bool) -> None:
        id = f"group {step} {index}" + (" rival" if rival else "")
        self.same(self.model.open_group(id, step, index), self.world.open_group(id, step, index))

    @precondition(lambda self: self.model.groups)
    @rule(
        n=some_rollout,
        where=st.integers(0, STEPS * GROUPS - 1),
        names=st.sets(st.integers(0, 2)),
        aborted=seldom,
        steal=seldom,
    )
    def report(self, n: int, where: int, names: set[int], aborted: bool, steal: bool) -> None:
        groups = sorted(self.model.groups)
        named = tuple(f"{n}/{k}" for k in sorted(names)) + ((f"{n + 1}/0",) if steal else ())
        self._report(
            f"rollout {n}", groups[where % len(groups)], n % SLOTS, "aborted" if aborted else "reported", named
        )

    @precondition(lambda self: any(group.state == "open" for group in self.model.groups.values()))
    @rule(calls=st.integers(0, 2))
    def fill(self, calls: int) -> None:
        """Report every slot that the first open group still owes."""
        id = next(id for id, group in sorted(self.model.groups.items()) if group.state == "open")
        for slot in range(SLOTS):
            if slot not in self.model.groups[id].slots:
                name = f"rollout {id} {slot}"
                self._report(name, id, slot, "reported", tuple(f"{name}/{k}" for k in range(calls)))

    def _report(self, id: str, group: str, slot: int, status: str, names: tuple[str, ...]) -> None:
        expected = self.model.report(id, Rollout(group, slot, status, names))
        self.same(expected, self.world.report(id, group, slot, status, names))

    @rule(n=some_rollout, k=st.integers(0, 2), unscored=seldom, tokens=st.sampled_from((7, 7, 7, 8)))
    def score(self, n: int, k: int, unscored: bool, tokens: int) -> None:
        self._score(f"{n}/{k}", f"rollout {n}", ("unscored" if unscored else "scored", tokens))

    @rule()
    def score_all_awaited(self) -> None:
        for name, row in sorted(self.model.trajectories.items()):
            if row.state == "awaited":
                self._score(name, row.rollout, ("scored", 7))

    def _score(self, id: str, rollout: str, body: tuple) -> None:
        self.same(self.model.score(id, rollout, body), self.world.score(id, rollout, body))

    @precondition(lambda self: any(group.state == "open" for group in self.model.groups.values()))
    @rule(pick=st.integers(0, 5))
    def pass_rollout_deadline(self, pick: int) -> None:
        groups = sorted(id for id, group in self.model.groups.items() if group.state == "open")
        id = groups[pick % len(groups)]
        self.model.groups[id].due = True
        self.same(None, self.world.build.pass_deadline("deadline", self.world.id(id)))

    @precondition(lambda self: any(self.pending()))
    @rule(pick=st.integers(0, 5))
    def pass_score_deadline(self, pick: int) -> None:
        groups = sorted(self.pending())
        id = groups[pick % len(groups)]
        self.model.groups[id].score_due = True
        self.same(None, self.world.build.pass_deadline("score_deadline", self.world.id(id)))

    def pending(self) -> list[str]:
        """Complete groups that are not sealed."""
        groups = self.model.groups.items()
        return [id for id, group in groups if (group.state, group.scoring) == ("complete", "pending")]

    @rule(orphans=seldom)
    def sweep(self, orphans: bool) -> None:
        if orphans:
            self.same(None, self.world.orphan())
            self.model.orphan()
        self.model.sweep()
        self.same(None, self.world.sweep())

    @precondition(lambda self: len(self.model.groups) > 2 and self.model.state == "running")
    @rule()
    def drain(self) -> None:
        self.model.drain()
        assert self.world.do(self.world.build.client.drain(self.world.run)).state in ("draining", "finished")

    @rule(role=some_role, worker=some_worker, back=st.sampled_from((0, 0, 0, 1, 2, -1)))
    def resume(self, role: str, worker: str, back: int) -> None:
        step = max(0, self.model.streams.acked_step(role) - back)
        expected = self.model.streams.resume(role, worker, step)
        self.same(expected, self.world.trainer(role, worker, 0).resume(step))

    @rule(role=some_role, worker=some_worker, age=current_or_stale)
    def lease(self, role: str, worker: str, age: int) -> None:
        epoch = max(0, self.model.streams.of[role].epoch + age)
        self.same(self.model.streams.lease(role, worker, epoch), self.world.lease(role, worker, epoch))

    @rule(role=some_role, age=current_or_stale, step=some_step, skipped=seldom)
    def ack(self, role: str, age: int, step: int, skipped: bool) -> None:
        self._ack(role, max(0, self.model.streams.of[role].epoch + age), step, "skipped" if skipped else "trained")

    def _ack(self, role: str, epoch: int, step: int, outcome: str) -> None:
        batch = self.model.batch(role, step)
        expected = self.model.streams.ack(role, epoch, step, outcome)
        self.same(expected, self.world.ack(role, epoch, step, outcome, batch))

    @rule(role=some_role, age=current_or_stale, step=st.integers(0, STEPS))
    def publish(self, role: str, age: int, step: int) -> None:
        epoch = max(0, self.model.streams.of[role].epoch + age)
        expected = self.model.streams.publish(role, epoch, step)
        self.same(None if expected == "ok" else expected, self.world.trainer(role, "one", epoch).confirm(step))

    @rule(role=some_role, worker=some_worker, age=current_or_stale, failed=st.booleans())
    def release(self, role: str, worker: str, age: int, failed: bool) -> None:
        epoch = max(0, self.model.streams.of[role].epoch + age)
        expected = self.model.streams.release(role, worker, epoch, failed)
        call = self.world.trainer(role, worker, epoch).release("trainer-failed" if failed else None)
        self.same(None if expected == "ok" else expected, call)

    @rule(role=some_role)
    def expire(self, role: str) -> None:
        if self.model.streams.of[role].worker is None:
            return
        self.model.streams.of[role].live = False
        self.same(None, self.world.expire(role))

    @rule(role=some_role)
    def train(self, role: str) -> None:
        """What a trainer does that nothing happens to."""
        streams = self.model.streams
        if not streams.of[role].live:
            self.resume(role, "one", 0)
        stream = streams.of[role]
        assert stream.worker is not None
        step = streams.lease(role, stream.worker, stream.epoch)
        self.same(step, self.world.lease(role, stream.worker, stream.epoch))
        if isinstance(step, int):
            self._ack(role, stream.epoch, step, "trained")
            self.publish(role, 0, step)

    def same(self, expected: object, call) -> None:
        """The service answers what the model says."""
        assert self.world.do(call) == expected

    @invariant()
    def the_tables_say_the_same(self) -> None:
        assert self.world.do(self.world.tables()) == self.expected()

    def expected(self) -> dict[str, set[tuple]]:
        """The model as rows."""
        id, model = self.world.id, self.model
        streams = model.streams
        return {
            "run": {(model.state,)},
            "groups": {(id(k), g.state, g.scoring, len(g.slots), len(g.slots)) for k, g in model.groups.items()},
            "rollouts": {(id(k), r.state) for k, r in model.rollouts.items()},
            "trajectories": {
                (id(k), t.state, t.answer, id(t.group) if t.group else None) for k, t in model.trajectories.items()
            },
            "deliveries": {(*k, d.state, d.attempts, d.outcome) for k, d in streams.deliveries.items()},
            "streams": {
                (role, s.epoch, s.worker, streams.acked_step(role), streams.live_step(role))
                for role, s in streams.of.items()
            },
        }


def test_every_answer_and_every_table_is_the_models(worlds) -> None:
    examples, steps = (400, 60) if LONG else (12, 30)
    bounds = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        derandomize=not LONG,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(lambda: Calls(worlds()), settings=bounds)
