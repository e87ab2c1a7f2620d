"""`run.d_max = "auto"`: from a pilot of the warmed-up pair, before the run is declared (m-grpo.md, section 3)."""

from shared.cli.demo.evaluations import Evaluator
from shared.cli.demo.settings import Settings
from shared.mgrpo.pilot import smallest_d_max
from shared.schemas.invocation import EvaluationRequest

PILOT_ROLLOUTS = 512


async def resolve_d_max(settings: Settings, evaluator: Evaluator) -> int | None:
    """The D_max of the pilot, capped by the planner's limit on calls; None where the run names a number."""
    if settings.run.get("d_max") != "auto":
        return None
    request = EvaluationRequest(
        split="train",
        n=PILOT_ROLLOUTS,
        seed=settings.spec().seed,
        planner_checkpoint="initial",
        executor_checkpoint="initial",
    )
    view = await evaluator.evaluate(request)
    found = smallest_d_max(view.calls)
    cap = settings.planner.get("limits", {}).get("max_calls")
    return max(1, min(found, cap) if cap else found)
