"""The verdict on a run, in one line: what the operator asks first."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from statistics import median

from sqlalchemy import Row
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.learning import learning
from shared.schemas.base import Role
from shared.schemas.verdict import Health, Verdict
from sync_service import store
from sync_service.operations.finding import Finding
from sync_service.operations.findings import Facts, findings
from sync_service.operations.pace import pace, seconds_left
from sync_service.operations.waits import waits
from sync_service.store.recent import Acked
from sync_service.store.runs import Run

RECENT = 20
"""The steps that pace and shares are taken over."""
MOVING: tuple[Health, ...] = ("NOT LEARNING", "DEGRADED", "OK")
WORST: tuple[Health, ...] = ("STALLED", *MOVING)


async def verdict(connection: AsyncConnection, name: str, stall_s: float, lost_s: float) -> Verdict:
    """Read what it takes, and judge. NotFound where there is no such run."""
    run = await store.runs.find(connection, name)
    streams = await store.status.streams(connection, name)
    acked = await store.recent.acked(connection, name, RECENT)
    leased = await store.recent.leased(connection, name)
    now = streams[0].at
    until = now if run.state in ("running", "draining") else None
    steps = {stream.role: [step for step in acked if step.role == stream.role] for stream in streams}
    remaining = _remaining(run, streams)
    paces = {
        s.role: pace(steps[s.role], s.acked_step, leased.get(s.role), until if remaining[s.role] else None)
        for s in streams
    }
    facts = Facts(
        spec=run.spec,
        now=now,
        stall_s=stall_s,
        waits=await waits(connection, run, streams, stall_s),
        lost=[row.worker for row in await store.workers.lost(connection, name, lost_s)],
        paces=paces,
        learning=learning([step.statistics for step in steps.get("planner", ())]),
        statistics={role: [step.statistics for step in of_role] for role, of_role in steps.items()},
        calls=_calls(steps.get("executor", ())),
        scores_s=_scores_s(steps.get("planner", ()), steps.get("executor", ())),
    )
    return judge(run, facts, remaining)


def judge(run: Run, facts: Facts, remaining: Mapping[Role, int]) -> Verdict:
    """The verdict on what is known. `remaining`: the steps that each role has yet to ack."""
    step = min(pace.acked_step for pace in facts.paces.values())
    found = [resting] if (resting := _resting(run)) else findings(facts)
    state = min((finding.state for finding in found), key=_rank, default="OK")
    if state == "OK":
        found.insert(0, Finding("OK", _progress(run, step)))
    found.sort(key=lambda finding: _rank(finding.state))
    return Verdict(
        run=run.name,
        state=state,
        why=tuple(finding.text for finding in found),
        advice=tuple(finding.advice for finding in found if finding.advice),
        learning=facts.learning,
        step=step,
        steps=run.spec.steps,
        seconds_left=seconds_left(facts.paces, remaining) if state in MOVING else None,
        roles=dict(facts.paces),
        at=facts.now.isoformat(),
    )


def _rank(state: Health) -> int:
    return WORST.index(state) if state in WORST else len(WORST)


def _resting(run: Run) -> Finding | None:
    """What there is to say of a run that does not go on."""
    match run.state:
        case "finished":
            return Finding("FINISHED", "every batch that was cut is trained on")
        case "failed":
            return Finding("FAILED", f"the run was ended: {run.reason}", "declare it under another name to begin anew")
        case "purging":
            return Finding("FINISHED", "the run is being deleted")
        case "paused":
            return Finding("PAUSED", "the operator paused the run: nothing is opened", "resume it")
        case "declared":
            return Finding("IDLE", "no group is opened yet", "start the servers, and give them the name of this run")
    return None


def _progress(run: Run, step: int) -> str:
    end = "the run drains" if run.state == "draining" else f"step {step} of {run.spec.steps} is trained by every role"
    return end if step or run.state == "draining" else "rollouts of the first steps are under way"


def _remaining(run: Run, streams: Sequence[Row]) -> dict[Role, int]:
    """A run that drains ends with what it has; before that every step is to come."""
    if run.state == "draining":
        return {stream.role: stream.ready + stream.waiting + stream.dead for stream in streams}
    return {stream.role: run.spec.steps - stream.acked_step for stream in streams}


def _calls(executor: Sequence[Acked]) -> Counter[int]:
    calls: Counter[int] = Counter()
    for step in executor:
        for label, count in step.histograms.get("calls_per_rollout", {}).items():
            if label.isdecimal():
                calls[int(label)] += count
    return calls


def _scores_s(planner: Sequence[Acked], executor: Sequence[Acked]) -> float | None:
    cut: dict[int, datetime] = {step.step: step.ready_at for step in planner if step.ready_at}
    late = [(step.ready_at - cut[step.step]).total_seconds() for step in executor if step.ready_at and step.step in cut]
    return max(0.0, median(late)) if late else None
