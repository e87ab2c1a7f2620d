"""Stage 1 of a run: both roles' warm-ups side by side, each a process on its own core, with a progress bar each."""

import asyncio
import json
import sys
from pathlib import Path

from rich.progress import Progress, TaskID

from shared.cli.demo.settings import Settings
from shared.errors import UserError
from shared.process import end_with_parent
from shared.schemas import Role

GATE_EXIT = 3


class GateFailed(UserError):
    """A warmed-up model did not pass its gate."""


async def warm_up(folder: Path, settings: Settings, progress: Progress) -> dict[Role, Path]:
    """The model folder of each role; what an earlier start has finished is used again."""
    models = {role: settings.warmup.models.get(role, folder / "warmup" / role) for role in settings.roles}
    todo = [
        role
        for role in settings.roles
        if role not in settings.warmup.models and not (models[role] / "warmup.json").exists()
    ]
    bars = {role: progress.add_task(f"warm-up {role}", total=1.0, note="starting") for role in todo}
    try:
        async with asyncio.TaskGroup() as group:
            for role in todo:
                group.create_task(_warm_up_one(role, models[role], folder, settings, progress, bars[role]))
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    for role in settings.warmup.models:
        if not (models[role] / "config.json").exists():
            raise UserError(f"warmup.models.{role}: there is no model folder {models[role]}")
    return models


async def _warm_up_one(
    role: Role, out: Path, folder: Path, settings: Settings, progress: Progress, bar: TaskID
) -> None:
    log = folder / "logs" / f"warmup-{role}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as sink:
        process = await asyncio.create_subprocess_exec(
            *_command(role, out, settings),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=sink,
            preexec_fn=end_with_parent,
        )
    assert process.stdout is not None
    try:
        async for line in process.stdout:
            event = json.loads(line)
            if event["event"] == "progress":
                note = f"look-up {event['lookup']:.2f}  loss {event['loss']:.2f}  step {event['step']}"
                progress.update(bar, completed=event["fraction"], note=note)
        code = await process.wait()
    except asyncio.CancelledError:
        process.terminate()
        await process.wait()
        raise
    if code:
        last = log.read_text(errors="replace").strip().splitlines()[-1:]
        error = GateFailed if code == GATE_EXIT else UserError
        raise error(f"the warm-up of the {role} failed: {last[0] if last else f'exit code {code}'} (log: {log})")
    progress.update(bar, completed=1.0)


def _command(role: Role, out: Path, settings: Settings) -> list[str]:
    command = [sys.executable, "-m", "shared.cli.main", "warmup", "--environment", settings.demo.environment]
    section = settings.warmup
    command += [
        "--role",
        role,
        "--team",
        settings.team,
        "--out",
        str(out),
        "--seed",
        str(section.seed),
        "--device",
        section.device,
        "--json",
    ]
    for name, value in settings.demo.environment_options.items():
        command += ["--option", f"{name}={json.dumps(value)}"]
    for name, value in section.pace.items():
        command += ["--pace", f"{name}={json.dumps(value)}"]
    chosen = {"--steps": section.steps, "--demonstrations": section.demonstrations, "--model": section.base.get(role)}
    return command + [part for flag, value in chosen.items() if value is not None for part in (flag, str(value))]
