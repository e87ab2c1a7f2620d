"""A role's server that stands still at a moment of a step, so that it, its trainer or the sync service is killed there.

    python -m tests.e2e.survival.standing_still ROLE FOLDER --config FILE

FOLDER/order.json names the moment; FOLDER/reached-N says that order N stands, and FOLDER/go-N lets it go on. Each
update that reached the weights is a line of FOLDER/updates.
"""

import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from shared.client import SyncClient
from shared.policy.checkpoints import CheckpointStore
from shared.policy.policy import Policy
from shared.stream import Delivery
from tests.e2e.survival.orders import Moment, Order
from tests.waiting import until

PATIENCE_S = 600.0


class Stage:
    """Where the server is, and whether it is to stand still there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.step = 0

    async def at(self, moment: Moment, step: int | None = None) -> None:
        """Stand still here, if that is the order, until it is let go; `step`, if not the one that is trained."""
        order = Order(**json.loads((self._folder / "order.json").read_text()))
        if (order.step, order.moment) == (self.step if step is None else step, moment):
            (self._folder / f"reached-{order.number}").touch()
            await until((self._folder / f"go-{order.number}").exists, PATIENCE_S)

    def note_update(self) -> None:
        """The weights hold this step now."""
        with (self._folder / "updates").open("a") as file:
            file.write(f"{self.step}\n")


def direct(stage: Stage) -> None:
    """Make every moment of the training loop one where the server may stand still."""

    async def update(call: Callable, self: Policy, rows: Any, step: int, guard: Callable[[], Awaitable[bool]]) -> Any:
        stage.step = step
        await stage.at("before-update")
        result = await call(self, rows, step, guard)
        await stage.at("after-update")
        return result

    async def apply(call: Callable, self: Policy, *arguments: Any) -> Any:
        await stage.at("before-optimizer-step")
        result = await call(self, *arguments)
        stage.note_update()
        return result

    async def save(call: Callable, self: CheckpointStore, *arguments: Any) -> Any:
        *others, write = arguments

        async def write_and_stand(folder: Path) -> str:
            checksum = await write(folder)
            await stage.at("in-checkpoint")
            return checksum

        return await call(self, *others, write_and_stand)

    async def ack(call: Callable, self: Delivery, body: Any) -> None:
        await stage.at("before-ack")
        await call(self, body)
        await stage.at("after-ack")

    async def publish(call: Callable, self: SyncClient, run: str, role: str, epoch: int, step: int, body: Any) -> None:
        if stage.step:  # a resume publishes what it found
            await stage.at("before-publish", step)  # the next one may be trained already
        await call(self, run, role, epoch, step, body)

    for owner, name, wrapper in (
        (Policy, "update", update),
        (Policy, "_apply", apply),
        (CheckpointStore, "save", save),
        (Delivery, "ack", ack),
        (SyncClient, "publish", publish),
    ):
        _wrap(owner, name, wrapper)


def _wrap(owner: type, name: str, wrapper: Callable) -> None:
    call = getattr(owner, name)

    async def wrapped(self: Any, *arguments: Any, **named: Any) -> Any:
        return await wrapper(call, self, *arguments, **named)

    setattr(owner, name, wrapped)


def main() -> int:
    role, folder, *arguments = sys.argv[1:]
    if role == "planner":
        from planner_server.__main__ import main as serve
    else:
        from executor_server.__main__ import main as serve
    direct(Stage(Path(folder)))
    return serve(arguments)


if __name__ == "__main__":
    sys.exit(main())
