"""Where the record and what is computed from it differ, and what cannot be compared."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from executor_server.audit.executor import executor_part
from executor_server.audit.part import Part
from executor_server.audit.planner import planner_part
from executor_server.audit.record import GroupRecord, Record, recorded_fate
from executor_server.audit.totals import totals
from shared.schemas.base import Role
from shared.schemas.run import RunSpec
from shared.schemas.stream import Fate, StepStatistics

SKIPPED = "by-operator"
DELEGATED = "rows_delegated"
CLOSE = 1e-9
"""Sums of float64 in another order differ by less."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is recorded otherwise than it is computed."""

    role: Role
    step: int
    what: str
    recorded: str
    computed: str


@dataclass(slots=True)
class Audit:
    """Of one group. `notes`: what could not be compared, and why."""

    group: str
    parts: list[Part] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "group": self.group,
            "parts": [part.plain() for part in self.parts],
            "differences": [asdict(difference) for difference in self.differences],
            "notes": self.notes,
        }


def audit(record: Record) -> Audit:
    """Compute everything anew, and compare: the first group row by row, and with the others the step's statistics."""
    subject = record.groups[0]
    found = Audit(subject.group.group)
    for role in record.spec.trained_roles:
        for step in subject.steps if role == "executor" else [subject.group.step]:
            ack = record.acks.get((role, step))
            if ack is None:
                found.notes.append(f"the {role} has not acked step {step}: nothing is recorded yet")
            elif ack.reason == SKIPPED:
                found.notes.append(f"an operator skipped the {role}'s step {step}: there is nothing to compute")
            else:
                _step(found, record, role, step, ack)
    return found


def _step(found: Audit, record: Record, role: Role, step: int, ack: StepStatistics) -> None:
    updates = record.updates_before(role, step)
    parts = [_part(role, group, record.spec, step, updates) for group in record.groups]
    found.parts.append(parts[0])
    found.notes += [f"trajectory {id} was lost, as its server said: not trained on" for id in parts[0].given]
    found.differences += _rows(parts[0], record.groups[0])
    if role == "executor" and record.spec.cutter == "arrival":
        found.notes.append("under cutter arrival the executor's step holds rows of any group: no statistics compared")
    elif len(record.groups) == record.spec.groups_per_step:
        found.differences += _statistics(parts, record.groups, ack)
        if ack.statistics.get(DELEGATED):
            found.notes.append("one policy did the delegations too: its server alone knows these rows, and the calls")
    else:
        found.notes.append(f"step {step} was not read whole: no statistics compared")


def _part(role: Role, group: GroupRecord, spec: RunSpec, step: int, updates: int) -> Part:
    return planner_part(group, spec, updates) if role == "planner" else executor_part(group, spec, step, updates)


def _rows(part: Part, group: GroupRecord) -> Iterator[Difference]:
    """Fates, row by row; and rows that have a fate though nothing was to be trained."""
    fates = _recorded(part, group)
    computed: dict[str, Fate] = {row.id: row.fate for row in part.rows}
    for id in sorted(fates.keys() | computed.keys()):
        ours, theirs = computed.get(id), fates.get(id)
        if ours != theirs:
            yield Difference(part.role, part.step, f"fate of {id}", _text(theirs), _text(ours))


def _recorded(part: Part, group: GroupRecord) -> dict[str, Fate]:
    if part.role == "planner":
        told = {r.planner_trajectory: recorded_fate(r) for r in group.rollouts if r.planner_trajectory}
    else:
        told = {t.id: recorded_fate(t) for t in group.trajectories.values() if t.step == part.step}
    return {id: fate for id, fate in told.items() if fate is not None}


def _text(fate: Fate | None) -> str:
    return "nothing" if fate is None else f"trained x{fate}" if isinstance(fate, int) else fate


def _statistics(parts: Sequence[Part], records: Sequence[GroupRecord], ack: StepStatistics) -> Iterator[Difference]:
    """Of what the trainer sent, whatever can be computed from the record."""
    statistics, histograms = totals(parts, records, ack.statistics.get(DELEGATED, 0))
    for name in sorted(statistics.keys() & ack.statistics.keys()):
        ours, theirs = statistics[name], ack.statistics[name]
        if not math.isclose(ours, theirs, rel_tol=CLOSE, abs_tol=CLOSE):
            yield Difference(parts[0].role, ack.step, f"statistic {name}", f"{theirs:.9g}", f"{ours:.9g}")
    for name in sorted(histograms.keys() & ack.histograms.keys()):
        bars, told = histograms[name], ack.histograms[name]
        for bar in sorted(bars.keys() | told.keys()):
            if bars.get(bar, 0) != told.get(bar, 0):
                values = str(told.get(bar, 0)), str(bars.get(bar, 0))
                yield Difference(parts[0].role, ack.step, f"histogram {name}, {bar}", *values)
