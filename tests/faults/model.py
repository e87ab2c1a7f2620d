"""A pure model of one run: groups, rollouts and trajectories. No database, no clock, no concurrency.

Each call returns what the service answers: an `accepted`, a state, or the wire type of an error. Deadlines pass when
the model is told so. Both roles train; the cutter is `group`.
"""

from dataclasses import dataclass, field

from tests.faults.model_streams import Streams

STEPS, GROUPS, SLOTS, MIN_ROLLOUTS, STALENESS = 3, 2, 3, 2, 1


@dataclass
class Group:
    """K slots of one task."""

    step: int
    index: int
    state: str = "open"
    scoring: str = "pending"
    slots: dict[int, str] = field(default_factory=dict)
    due: bool = False
    score_due: bool = False


@dataclass
class Rollout:
    """The last attempt of one slot; `names` are the ids of its trajectories."""

    group: str
    slot: int
    status: str
    names: tuple[str, ...]
    state: str = ""


@dataclass
class Trajectory:
    """`body` is what was submitted, None while it is awaited; `answer` is what was answered then."""

    rollout: str
    state: str
    body: tuple | None = None
    group: str | None = None
    named_by: str | None = None
    answer: bool | None = None
    status: str = "scored"
    delivered: bool = False


class Model:
    """What the tables should say."""

    def __init__(self) -> None:
        self.state = "declared"
        self.groups: dict[str, Group] = {}
        self.rollouts: dict[str, Rollout] = {}
        self.trajectories: dict[str, Trajectory] = {}
        self.streams = Streams(self)

    def open_group(self, id: str, step: int, index: int) -> str:
        """Open the group of a place."""
        if known := self.groups.get(id):
            return known.state if (known.step, known.index) == (step, index) else "body-conflict"
        if self.state not in ("declared", "running"):
            return "invalid-transition"
        if any((group.step, group.index) == (step, index) for group in self.groups.values()):
            return "conflict"
        if step > self.horizon:
            return "staleness-bound"
        self.groups[id] = Group(step, index)
        self.streams.open(step)
        self.state = "running"
        if len(self.groups) == STEPS * GROUPS:
            self.drain()
        return "open"

    @property
    def horizon(self) -> int:
        """The highest step whose groups may be opened."""
        return min(STEPS, 1 + STALENESS + self.streams.slowest_live_step)

    def drain(self) -> None:
        """Open nothing more."""
        self.state = "draining"
        for step in sorted({group.step for group in self.groups.values()}):
            self._cut(step)
        self.streams.finish_if_done()

    def report(self, id: str, rollout: Rollout) -> bool | str:
        """Submit a rollout."""
        group = self.groups[rollout.group]
        self._advance(rollout.group)
        if before := self.rollouts.get(id):
            same = (before.group, before.slot, before.status, before.names) == (
                rollout.group,
                rollout.slot,
                rollout.status,
                rollout.names,
            )
            return before.state != "late" if same else "body-conflict"
        state = rollout.status if group.state == "open" else "late"
        if state != "late" and rollout.slot in group.slots:
            return "conflict"
        if any(self._is_of_another(name, id) for name in rollout.names):
            return "conflict"
        rollout.state = state
        self.rollouts[id] = rollout
        if state != "late":
            group.slots[rollout.slot] = id
        self._name(id, rollout)
        self._advance(rollout.group)
        return state != "late"

    def _is_of_another(self, name: str, rollout: str) -> bool:
        known = self.trajectories.get(name)
        return known is not None and (known.rollout != rollout or known.named_by is not None)

    def _name(self, id: str, rollout: Rollout) -> None:
        for name in rollout.names:
            row = self.trajectories.setdefault(name, Trajectory(id, "awaited"))
            row.group, row.named_by = rollout.group, rollout.state
            if rollout.state == "late" and row.state in ("scored", "unscored"):
                row.state = "late"
        for name, row in self.trajectories.items():
            if row.rollout == id and name not in rollout.names and row.group is None:
                row.group = rollout.group
                if rollout.state == "late" and row.state in ("scored", "unscored"):
                    row.state = "orphan"

    def score(self, id: str, rollout: str, body: tuple) -> bool | str:
        """Submit a trajectory; `body` starts with its status."""
        parent, known = self.rollouts.get(rollout), self.trajectories.get(id)
        if parent is not None:
            self._advance(parent.group)
        if known is not None and known.body is not None:
            return bool(known.answer) if (known.rollout, known.body) == (rollout, body) else "body-conflict"
        if known is not None and known.rollout != rollout:
            return "conflict"
        row = known or Trajectory(rollout, "awaited", group=parent.group if parent else None)
        row.state = self._state_at_arrival(row, parent, known is not None, body[0])
        row.body, row.status, row.answer = body, body[0], row.state in ("scored", "unscored")
        self.trajectories[id] = row
        if parent is not None:
            self._advance(parent.group)
        return row.answer

    def _state_at_arrival(self, row: Trajectory, parent: Rollout | None, named: bool, status: str) -> str:
        if parent is None:
            return status
        group = self.groups[parent.group]
        if not named:
            return status if group.state == "open" else "orphan"
        return "late" if row.named_by == "late" or group.scoring == "sealed" else status

    def sweep(self) -> None:
        """Everything that is past its deadline moves."""
        for id in self.groups:
            self._advance(id)
        self.streams.expire_all()

    def orphan(self) -> None:
        """What waits for its rollout has waited long enough."""
        _end(list(self.trajectories.values()), "orphan", lambda row: row.group is None)

    def _advance(self, id: str) -> None:
        """Close and seal what is to be, then cut and make ready."""
        group = self.groups[id]
        rows = [row for row in self.trajectories.values() if row.group == id]
        reported = [slot for slot in group.slots.values() if self.rollouts[slot].state == "reported"]
        if group.state == "open" and (group.due or len(group.slots) == SLOTS):
            group.state = "complete" if len(reported) >= MIN_ROLLOUTS else "discarded"
            _end(rows, "orphan", lambda row: row.named_by is None)
        if group.state == "open" or group.scoring == "sealed":
            return
        awaited = any(row.state == "awaited" and row.named_by == "reported" for row in rows)
        if group.state == "discarded" or group.score_due or not awaited:
            group.scoring = "sealed"
            _end(rows, "dropped", lambda row: group.state == "discarded" or row.named_by == "aborted")
        self._cut(group.step)

    def _cut(self, step: int) -> None:
        theirs = [group for group in self.groups.values() if group.step == step]
        closed = all(group.state != "open" for group in theirs)
        if closed and (len(theirs) == GROUPS or self.state == "draining"):
            self.streams.make_ready("planner", step)
            if all(group.scoring == "sealed" for group in theirs):
                self.streams.make_ready("executor", step)

    def batch(self, role: str, step: int) -> dict[str, bool]:
        """The trajectories of a delivery that the role owns; whether each can be trained on."""
        complete = {id for id, group in self.groups.items() if group.step == step and group.state == "complete"}
        reported = {
            id: rollout
            for id, rollout in self.rollouts.items()
            if rollout.group in complete and rollout.state == "reported"
        }
        if role == "planner":
            return dict.fromkeys(reported, True)
        return {
            name: self.trajectories[name].state == "scored" for rollout in reported.values() for name in rollout.names
        }


def _end(rows: list[Trajectory], state: str, which) -> None:
    for row in rows:
        if row.state in ("scored", "unscored") and which(row):
            row.state = state
