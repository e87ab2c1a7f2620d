"""How a look at a run is shown: the verdict, both roles, the workers, the funnel, and what needs the operator."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from shared.cli.picture import Picture
from shared.cli.terminal import between, clean, counts, one_line, span, table
from shared.schemas.stream import StepStatistics

STYLES = {"OK": "green", "FINISHED": "green", "DEGRADED": "yellow", "PAUSED": "yellow", "IDLE": "yellow"}
BAD = "bold red"


def render(picture: Picture, *, fault: str | None = None, age_s: float = 0.0) -> RenderableType:
    """The whole picture. `fault`: why there is no newer one, for `age_s` seconds."""
    return Group(*_parts(picture, fault, age_s))


def _parts(picture: Picture, fault: str | None, age_s: float) -> Iterator[RenderableType]:
    verdict, status = picture.verdict, picture.status
    if fault:
        yield Text(f"{span(age_s)} old: {one_line(fault)}", style=BAD)
    line = Text(f"{status.run}  ")
    line.append(verdict.state, style=STYLES.get(verdict.state, BAD))
    line.append(f"  {one_line('; '.join(verdict.why))}")
    yield line
    yield from (Text(f"advice: {one_line(advice)}") for advice in verdict.advice)
    left = "" if verdict.seconds_left is None else f", about {span(verdict.seconds_left)} left"
    yield Text(
        f"{status.state}, step {verdict.step} of {verdict.steps}{left}; learning: {clean(str(verdict.learning))}"
    )
    yield _roles(picture)
    yield Text(f"groups        {counts(status.groups)}; steps may be opened up to {status.open_through}")
    yield Text(f"rollouts      {counts(status.rollouts)}")
    yield Text(f"trajectories  {counts(status.trajectories)}")
    if picture.workers:
        yield _workers(picture)
    for row in picture.dead:
        tried = f"{row.role} step {row.step} is dead after {row.attempts} attempts ({row.error})"
        yield Text(f"{tried}: tandem requeue {row.id}, or tandem skip {row.id}", style=BAD)


def _roles(picture: Picture) -> Table:
    columns = ("role", "acked", "live", "epoch", "trainer", "ready", "waiting", "dead", "step takes", "idle", "reward")
    rows = []
    for role, stream in picture.status.roles.items():
        pace, step = picture.verdict.roles.get(role), picture.steps.get(role)
        takes = None if pace is None or pace.step_s is None else f"{pace.step_s:.1f} s"
        idle = None if pace is None or pace.idle is None else f"{pace.idle:.0%}"
        counted = (stream.acked_step, stream.live_step, stream.epoch, stream.worker or "nobody")
        queue = (stream.ready, stream.waiting, stream.dead)
        rows.append((role, *counted, *queue, takes, idle, _number(step, "reward_mean"), _staleness(step)))
    return table((*columns, "staleness"), rows)


def _workers(picture: Picture) -> Table:
    rows = []
    for worker in picture.workers:
        version = worker.version
        held = version and f"{version.epoch}.{version.step} ({version.updates} updates)"
        seen = "lost" if worker.lost else f"{span(max(0.0, between(worker.seen_at, picture.verdict.at)))} ago"
        rows.append((worker.worker, worker.role, worker.device, held, seen, worker.doing))
    return table(("worker", "role", "device", "samples with", "seen", "does"), rows)


def _number(step: StepStatistics | None, name: str) -> str | None:
    value = step.statistics.get(name) if step else None
    return None if value is None else f"{value:.3f}"


def _staleness(step: StepStatistics | None) -> str | None:
    """Of the last step's rows: mean, and the most."""
    mean, most = _number(step, "staleness_mean"), step and step.statistics.get("staleness_max")
    return None if mean is None or most is None else f"{mean}, most {most:g}"
