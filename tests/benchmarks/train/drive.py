"""`python -m tests.benchmarks.train.drive SIDE MODEL BATCH THREADS`: a side that is not TRL's, in our environment."""

import sys
from pathlib import Path

from tests.benchmarks.train import memory
from tests.benchmarks.train.lines import Clock, Lines
from tests.benchmarks.train.rows import copied, read, warm_up


def main() -> None:
    """A step each time one is asked for, the first one to warm up."""
    lines = Lines()
    name, folder, batch, threads = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4])

    import torch  # after Lines: it may print

    from tests.benchmarks.train.handwritten import HandWritten
    from tests.benchmarks.train.ours import Ours

    torch.set_num_threads(threads)
    checkpointing = name == "ours-checkpointed"
    side = HandWritten(folder) if name == "handwritten" else Ours(folder, checkpointing=checkpointing)
    rows = copied(read(batch)) if name == "copies" else read(batch)
    lines.wait()
    side.step(warm_up(rows))
    lines.answer(floor=memory.floor(sum(p.numel() * p.element_size() for p in side.model.parameters())))
    while lines.wait():
        memory.reset_peak()
        clock = Clock()
        loss, norm = side.step(rows)
        lines.answer(**clock.read(), loss=loss, gradient_norm=norm, peak=memory.peak())


if __name__ == "__main__":
    main()
