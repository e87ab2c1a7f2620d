"""`tandem demo-llm`, from top to bottom.

fetch the model -> warm both roles up -> start the three services -> declare the run -> follow it until enough steps
were live -> table, verdict, one line of JSON. Memory is watched all the while, over every process.
"""

import json
import time
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from shared.cli.demo.conductor import bars, check_name
from shared.cli.demo.metrics import Metrics
from shared.cli.demo.services import Services, check_configuration
from shared.cli.demo.settings import run_name
from shared.cli.demo.stage1 import warm_up
from shared.cli.demo.stopwatch import Stopwatch
from shared.cli.demo_llm.follow import Follow
from shared.cli.demo_llm.memory import PeakMemory
from shared.cli.demo_llm.outcome import Outcome
from shared.cli.demo_llm.report import show, summarise
from shared.cli.demo_llm.settings import LlmSettings
from shared.cli.demo_llm.smollm2 import fetch
from shared.client import SyncClient
from shared.config import save

MODEL = Path("runs/models/smollm2")
NOT_LEARNING_EXIT = 4


async def conduct(folder: Path, settings: LlmSettings, model: Path | None, console: Console) -> int:
    """The exit code: 0 where as many steps were live as wanted, else 4. `model`: in SmolLM2's place, in both roles."""
    check_name(folder)
    started = time.monotonic()
    clock = Stopwatch(folder / "seconds.json")
    async with PeakMemory() as memory:
        with bars(console) as progress:
            check_configuration(folder, settings, {"planner": folder, "executor": folder})
            with clock.stage("model"):
                settings = await _with_model(settings, model, progress)
            save(settings, folder / "config.toml")
            with clock.stage("warm-up"):
                models = await warm_up(folder, settings, progress)
            with clock.stage("co-training"):
                follow, outcome = await _co_train(folder, settings, models, console, progress)
    summary = summarise(follow, outcome, memory.bytes, time.monotonic() - started, clock.seconds)
    (folder / "summary.json").write_text(json.dumps(summary, indent=1))
    show(console, summary)
    return 0 if outcome.reached(settings.llm) else NOT_LEARNING_EXIT


async def _with_model(settings: LlmSettings, model: Path | None, progress: Progress) -> LlmSettings:
    if not settings.needs_model():
        return settings
    if model is None:
        bar = progress.add_task("model", total=None, note="SmolLM2-135M-Instruct: 93 MB once, then converted")
        model = await fetch(MODEL)
        progress.update(bar, total=1, completed=1, note=str(model))
    return settings.based_on(model.resolve())


async def _co_train(
    folder: Path, settings: LlmSettings, models: dict, console: Console, progress: Progress
) -> tuple[Follow, Outcome]:
    run = run_name(folder)
    async with Services(folder, settings, models) as services:
        console.print(f"watch: {services.watch_command()}", soft_wrap=True, markup=False, highlight=False)
        console.print(f"logs: {folder}/logs")
        async with SyncClient(services.urls.sync, key=services.keys.text("operator"), retry_for_s=20.0) as sync:
            await sync.declare_run(run, settings.spec())
            follow = Follow(run, settings, services, sync, Metrics(folder / "metrics.jsonl"), progress)
            return follow, await follow.until_decided()
