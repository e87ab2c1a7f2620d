"""A quantised GGUF file as a float32 Hugging Face folder: `python -m shared.policy.gguf FILE FOLDER`.

Trainer and samplers read safetensors. Reading GGUF takes tens of seconds, so it is done once, in its own process.
"""

import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

from shared.errors import TandemError, UserError, from_os_error
from shared.policy.weights import save_weights


def convert(file: Path, folder: Path) -> None:
    """Write weights, configuration and tokenizer (with its chat template) of `file` to `folder`: whole, or not at all.

    UserError: there is no such file, it is no GGUF of a causal language model, the extra `llm` is not installed, or the
    folder holds something already.
    """
    if find_spec("gguf") is None:
        raise UserError("reading GGUF needs the extra `llm`: pip install 'tandem-cotrain[llm]'")
    if not file.is_file():
        raise UserError(f"there is no GGUF file {file}")
    if any(folder.iterdir()) if folder.is_dir() else folder.exists():
        raise UserError(f"{folder} is there already: name a new folder")
    folder = folder.absolute()
    beside = folder.with_name(f".partial-{folder.name}")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    try:
        _read_and_write(file, beside)
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        shutil.rmtree(beside, ignore_errors=True)
        raise UserError(f"{file} cannot be read as a causal language model: {error}") from None
    beside.rename(folder)


def _read_and_write(file: Path, folder: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(
        file.parent,
        gguf_file=file.name,
        quantization_config=GgufConfig(dequantize=True),  # without it, saving raises
        local_files_only=True,
        dtype=torch.float32,
    )
    save_weights(model, folder)
    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name, local_files_only=True)
    assert tokenizer is not None
    tokenizer.save_pretrained(folder)


def main(arguments: list[str]) -> int:
    """Convert; the exit code is 2 for a user's mistake, which one line explains."""
    if len(arguments) != 2:
        print("usage: python -m shared.policy.gguf FILE FOLDER", file=sys.stderr)
        return 2
    try:
        convert(Path(arguments[0]), Path(arguments[1]))
    except (TandemError, OSError) as error:
        fault = from_os_error(error) if isinstance(error, OSError) else error
        print(f"tandem: {fault.detail}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
