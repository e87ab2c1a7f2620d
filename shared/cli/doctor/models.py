"""Model folders: weights that are there, and the self-test of the chat template that a server makes at its start."""

from collections.abc import Iterator
from pathlib import Path

from shared.cli.doctor.finding import Finding, fail, ok
from shared.errors import UserError


def model(folder: Path) -> Iterator[Finding]:
    """One model folder."""
    from shared.agents.chat import ChatFormat
    from shared.policy.folder import check_model_folder
    from shared.policy.tokenizer import load_tokenizer

    what = f"model {folder.name}"
    try:
        check_model_folder(folder)
        tokenizer = load_tokenizer(folder)
    except UserError as error:
        return (yield fail(what, error.detail, "give a Hugging Face folder with safetensors and a tokenizer"))
    except ImportError as error:
        return (yield fail(what, str(error), "pip install 'tandem-cotrain[planner]'"))
    yield ok(what, "weights and tokenizer are there")
    try:
        ChatFormat(tokenizer).check()
    except UserError as error:
        return (yield fail(f"{what}: chat template", error.detail, "docs/tutorial-models.md says what it must keep"))
    yield ok(f"{what}: chat template", "keeps its prefix, and ends turns with a special token")
