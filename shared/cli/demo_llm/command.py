"""`tandem demo-llm`: co-training with a real language model in both roles, on one machine."""

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from shared.cli.demo_commands import GATE_EXIT, INTERRUPTED_EXIT, interruptible, new_folder
from shared.errors import TandemError, UserError


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("demo-llm")(demo_llm)


def demo_llm(
    overrides: Annotated[list[str] | None, typer.Argument(help="Dotted overrides, such as llm.live_steps=1.")] = None,
    model: Annotated[Path | None, typer.Option(help="A model folder, in SmolLM2's place in both roles.")] = None,
    folder: Annotated[Path | None, typer.Option(help="Where the run lives; default runs/<time>.")] = None,
) -> None:
    """Warm SmolLM2-135M-Instruct up in both roles, and co-train the pair through the three services.

    It ends once two steps were live for both roles; up to four dead ones are made up for. Exit code 0: they were;
    4: they were not; 2: a mistake that one line explains; 130: stopped.

    Examples: tandem demo-llm; tandem demo-llm llm.live_steps=1; tandem demo-llm --model models/qwen warmup.device=cuda
    """
    if not (find_spec("gguf") and find_spec("psutil")):
        raise UserError("demo-llm needs the extra `llm`: pip install 'tandem-cotrain[llm]'")
    from shared.cli.demo.stage1 import GateFailed
    from shared.cli.demo_llm.conductor import conduct
    from shared.cli.demo_llm.settings import load_settings

    settings = load_settings(overrides or [])
    where, console = new_folder(folder), Console()
    console.print(f"run {where}")
    try:
        sys.exit(interruptible(conduct(where, settings, model, console)))
    except KeyboardInterrupt:
        console.print("stopped")
        sys.exit(INTERRUPTED_EXIT)
    except TandemError as error:
        print(f"tandem: {error.detail}", file=sys.stderr)
        sys.exit(GATE_EXIT if isinstance(error, GateFailed) else 2)
