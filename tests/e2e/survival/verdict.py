"""What must hold of a run that was killed again and again, beside one that was never killed."""

from tests.e2e.survival.orders import DEAD_STEP, STEPS
from tests.e2e.survival.run import Ended

LIVE = [step for step in range(1, STEPS + 1) if step != DEAD_STEP]


def check(never: Ended, killed: Ended) -> None:
    """Each batch is in the weights once: the same bits, the same statistics, each step acked once."""
    assert never.updates == LIVE
    assert set(killed.updates) == set(LIVE)
    assert [step.step for step in killed.steps] == list(range(1, STEPS + 1))
    assert never.steps[-1].epoch == 1 < killed.steps[-1].epoch
    assert killed.statistics == never.statistics
    assert set(killed.files) == {"model.safetensors", "optimizer.safetensors"}
    assert killed.files == never.files
