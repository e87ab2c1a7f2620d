"""What is worth saying of a run, each with how bad it is and what may be done: pure, from what the verdict has read."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from shared.learning import SOLVED_AT, Learning
from shared.schemas.base import Role
from shared.schemas.run import RunSpec, Wait
from shared.schemas.verdict import Pace
from sync_service.operations.duration import duration
from sync_service.operations.finding import Finding
from sync_service.operations.quality import mean, of_rows, share

NO_TRAINER_S = 30.0
"""For how long a stream may be without a trainer before that is said: it may just have started."""
IDLE, BUSY = 0.6, 0.4
"""A trainer that is idle for more of the time waits for somebody; one that is for less holds somebody up."""
SLOWER = 2.0
"""How many times a step must take that of the other role before it is said to hold that up."""
DEAD_SHARE = 0.5
"""The part of groups that may be dead before that is said."""
LATE_SCORES = 0.5
"""The part of a step's time that scores may come after the rollouts."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a run that goes on. `statistics` and `calls` are of the last acked steps, oldest first.

    `calls`: how many rollouts made so many calls. `scores_s`: how long after the planner's delivery the executor's is
    ready, as a median; None where no step has both.
    """

    spec: RunSpec
    now: datetime
    stall_s: float
    waits: Sequence[Wait]
    lost: Sequence[str]
    paces: Mapping[Role, Pace]
    learning: Learning
    statistics: Mapping[Role, Sequence[Mapping[str, float]]]
    calls: Mapping[int, int]
    scores_s: float | None


def findings(facts: Facts) -> list[Finding]:
    """Everything that is worth saying, in no order."""
    rows = of_rows(facts.spec, facts.statistics, facts.calls)
    return [*_of_waits(facts), *_of_workers(facts), *_of_learning(facts), *_of_balance(facts), *rows]


def _of_waits(facts: Facts) -> Iterator[Finding]:
    for wait in facts.waits:
        age = (facts.now - datetime.fromisoformat(wait.since)).total_seconds()
        advice = _ADVICE.get(wait.code, "").format(whom=wait.whom, who=wait.who)
        if wait.stalled or wait.code == "dead-delivery":
            yield Finding("STALLED", _said(wait, age), advice)
        elif age > (NO_TRAINER_S if wait.code == "no-trainer" else facts.stall_s / 2):
            yield Finding("DEGRADED", _said(wait, age), advice)


_ADVICE = {
    "no-trainer": "start the {who} server, or see why its trainer does not come back",
    "open-groups": "see whether the planner server samples",
    "scores": "see whether the executor's judge answers",
    "live-step": "see why the {whom} server trains or loads no step",
    "unopened-groups": "see why the planner server opens no group",
    "dead-delivery": "requeue the delivery, or skip it",
}


def _said(wait: Wait, age_s: float) -> str:
    if wait.code == "no-trainer":
        ready = "batch is" if wait.count == 1 else "batches are"
        return f"{wait.who} has had no lease for {duration(age_s)}; {wait.count} {ready} ready"
    return wait.text if wait.code == "dead-delivery" else f"{wait.text}, for {duration(age_s)}"


def _of_workers(facts: Facts) -> Iterator[Finding]:
    for worker in facts.lost:
        yield Finding("DEGRADED", f"worker {worker} is lost", f"see whether {worker} lives, and reaches this service")


def _of_learning(facts: Facts) -> Iterator[Finding]:
    planner = facts.statistics.get("planner", ())
    if facts.learning == "NOT LEARNING":
        text = "over 90% of the groups of the last 10 steps are dead, and few of their answers are right"
        yield Finding("NOT LEARNING", text, "give it easier tasks, a longer warm-up, or more rollouts a group")
    elif facts.learning == "SATURATED":
        text = "saturated: over 90% of the groups of the last 10 steps are dead, and most of their answers are right"
        yield Finding("OK", text, "give it harder tasks: these teach nothing more")
    elif (dead := share(planner, "groups_dead", "groups")) > DEAD_SHARE:
        solved = mean(planner, "correct_mean") >= SOLVED_AT
        text = f"{dead:.0%} of the planner's groups are dead, {'solved' if solved else 'unsolved'} for the most part"
        yield Finding("OK", text, f"mix in {'harder' if solved else 'easier'} tasks")


def _of_balance(facts: Facts) -> Iterator[Finding]:
    """Who holds whom up, where nobody is stalled."""
    idle = {role: pace.idle for role, pace in facts.paces.items() if pace.idle is not None}
    if len(idle) < len(facts.paces):
        return
    if all(share > IDLE for share in idle.values()):
        shares = ", ".join(f"the {role}'s {share:.0%} of the time" for role, share in idle.items())
        yield Finding("OK", f"trainers wait for rollouts: {shares}", "add samplers, or take trainers away")
    for role, other in (("planner", "executor"), ("executor", "planner")):
        if idle.get(role, 1.0) < BUSY and idle.get(other, 0.0) > IDLE:
            yield from _holds_up(facts, facts.paces[role], role, facts.paces[other], other)
    step_s = facts.paces["executor"].step_s if "executor" in facts.paces else None
    if step_s and facts.scores_s is not None and facts.scores_s > LATE_SCORES * step_s:
        text = f"the executor's scores come {duration(facts.scores_s)} after the rollouts, of {duration(step_s)} a step"
        yield Finding("OK", text, "make the judge faster, or let it work on more at once")


def _holds_up(facts: Facts, slow: Pace, role: str, fast: Pace, other: str) -> Iterator[Finding]:
    if not slow.training_s or not fast.training_s or slow.training_s < SLOWER * fast.training_s:
        return
    times = slow.training_s / fast.training_s
    text = (
        f"{role} is {times:.1f}x slower: it trains a step in {duration(slow.training_s)}, "
        f"the {other} in {duration(fast.training_s)}"
    )
    if any(wait.code == "live-step" and wait.whom == role for wait in facts.waits):
        yield Finding("OK", f"{text}; rollouts wait for it", f"raise staleness, or add trainer shards to the {role}")
    else:
        yield Finding("OK", text, f"add trainer shards to the {role}")
