"""The child process, with a script in the place of an interpreter that has vLLM."""

from pathlib import Path

import pytest

from shared.errors import DeadlineExceeded, Unavailable, UserError
from shared.policy.config import PolicyConfig
from shared.policy.vllm.config import VllmConfig
from shared.policy.vllm.sampler import VllmSampler


def script(folder: Path, lines: str) -> Path:
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{lines}\n")
    path.chmod(0o755)
    return path


async def start(model: Path, folder: Path, python: Path, **changes: object) -> VllmSampler:
    vllm = VllmConfig.model_validate({"python": python, "arguments": ["--enforce-eager"]} | changes)
    config = PolicyConfig.model_validate({"model": model, "sampler": "vllm", "vllm": vllm, "seed": 7, "threads": 1})
    return await VllmSampler.spawn(config, vllm, folder / "weights", folder / "logs", 3)


async def test_one_that_ends_at_once_is_told_with_its_log(model, tmp_path):
    python = script(tmp_path, 'echo "$@"; echo threads $OMP_NUM_THREADS; echo out of memory; exit 3')
    sampler = await start(model, tmp_path, python)
    with pytest.raises(Unavailable, match=r"ended with exit code 3; the end of .*vllm\.log") as error:
        await sampler.ready()
    await sampler.close(0)
    assert "out of memory" in error.value.detail
    assert "threads 3" in error.value.detail
    given = ["--seed 7", "--dtype float32", "--logprobs-mode processed_logprobs", "--generation-config vllm"]
    assert all(option in error.value.detail for option in [*given, "--max-num-seqs 64", "--enforce-eager"])
    assert f"--model {tmp_path / 'weights/initial'}" in error.value.detail


async def test_one_that_does_not_answer_is_given_up_and_killed(model, tmp_path):
    sampler = await start(model, tmp_path, script(tmp_path, "exec sleep 600"), start_s=0.3)
    with pytest.raises(DeadlineExceeded, match="did not answer within"):
        await sampler.ready()
    await sampler.close(0)


async def test_an_interpreter_that_is_not_there(model, tmp_path):
    with pytest.raises(UserError, match=r"policy\.vllm\.python: there is no"):
        await start(model, tmp_path, tmp_path / "nowhere")


async def test_no_key_of_ours_reaches_a_process_that_runs_a_model(model, tmp_path, monkeypatch):
    for name in ("VLLM_API_KEY", "TANDEM_SYNC_KEY", "TANDEM_VLLM_KEY"):
        monkeypatch.setenv(name, "hidden")
    sampler = await start(model, tmp_path, script(tmp_path, "env; exit 3"))
    with pytest.raises(Unavailable):
        await sampler.ready()
    await sampler.close(0)
    told = (tmp_path / "logs/vllm.log").read_text()
    assert "VLLM_API_KEY=\n" in told
    assert "hidden" not in told
