"""Planner before / after x executor before / after, on the same unseen tasks, sampled and greedy."""

from dataclasses import dataclass

from rich.progress import Progress

from shared.cli.demo.evaluations import FIRST, Evaluator
from shared.cli.demo.intervals import Estimate, accuracy, paired_difference
from shared.cli.demo.services import Urls
from shared.cli.demo.settings import Settings, trained
from shared.schemas.invocation import EvaluationRequest, EvaluationView

MODES = {"sampled": 1.0, "greedy": 0.0}
BEFORE, AFTER = "before", "after"


@dataclass(frozen=True, slots=True)
class Grid:
    """The evaluations by (mode, planner, executor), the last two `before` or `after`."""

    cells: dict[tuple[str, str, str], EvaluationView]

    def accuracy(self, mode: str, planner: str, executor: str) -> Estimate:
        """One cell's accuracy."""
        return accuracy(self.cells[mode, planner, executor].correct)

    def rise(self, mode: str) -> Estimate:
        """Both after, less both before, paired by task."""
        return paired_difference(self.cells[mode, BEFORE, BEFORE].correct, self.cells[mode, AFTER, AFTER].correct)


async def evaluate_grid(settings: Settings, evaluator: Evaluator, urls: Urls, progress: Progress) -> Grid:
    """Eight evaluations on the first and the last checkpoints; a role that did not train is the same on both."""
    last = {role: await evaluator.last_checkpoint(getattr(urls, role)) for role in trained(settings)}
    n = settings.demo.test_tasks
    cells: dict[tuple[str, str, str], EvaluationView] = {}
    bar = progress.add_task("test 2x2", total=8 * n, note="")
    for mode, temperature in MODES.items():
        for planner in (BEFORE, AFTER):
            for executor in (BEFORE, AFTER):
                start = len(cells) * n
                request = EvaluationRequest(
                    split="test",
                    n=n,
                    seed=settings.spec().seed,
                    temperature=temperature,
                    planner_checkpoint=last.get("planner", FIRST) if planner == AFTER else FIRST,
                    executor_checkpoint=last.get("executor", FIRST) if executor == AFTER else FIRST,
                )
                note = f"planner {planner}, executor {executor}, {mode}"
                cells[mode, planner, executor] = await evaluator.evaluate(
                    request,
                    lambda done, start=start, note=note: progress.update(bar, completed=start + done, note=note),
                )
    progress.update(bar, completed=8 * n, note="")
    return Grid(cells)
