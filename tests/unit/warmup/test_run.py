"""A whole warm-up on a tiny model: the folder that it leaves, its gates, and what it says when it cannot."""

import json
from dataclasses import replace

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from planner_server.delegation import DELEGATE as SERVED_DELEGATE
from shared.agents.toolbox import Toolbox
from shared.errors import UserError
from shared.policy.warmup.gates import measure, shortfalls
from shared.policy.warmup.run import FAILED_RESULT, RESULT, GateFailed, warm_up
from shared.policy.warmup.seat import Seat, tools_of
from shared.schemas.base import ROLES
from tests.parity_environment import Parity, build_tokenizer, save_model


def test_the_folder_loads_and_says_what_was_measured(taught, model_folder, tmp_path):
    result = warm_up(taught, "planner", tmp_path / "out", seed=3, model_folder=model_folder)
    written = json.loads((tmp_path / "out" / RESULT).read_text())
    assert written == result
    assert set(written["measured"]) == {"lookup", "format", "turns", "correct"}
    assert written["gated"]
    assert written["gate_at_step"] == 3
    assert written["steps"] == 5
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "out").config.hidden_size == 32
    assert AutoTokenizer.from_pretrained(tmp_path / "out").chat_template


def test_the_executor_is_measured_with_the_environments_tools(taught, tmp_path):
    folder = save_model(tmp_path / "start", "executor", {"<answer>2</answer>": 3.0})
    result = warm_up(taught, "executor", tmp_path / "out", model_folder=folder)
    assert set(result["measured"]) == {"lookup", "format", "turns"}
    assert 0 < result["measured"]["format"] <= 1


def test_a_model_of_both_roles_is_measured_in_each(taught, model_folder, tmp_path):
    result = warm_up(taught.of_team("unified"), "planner", tmp_path / "out", model_folder=model_folder)
    assert (result["team"], set(result["limits"])) == ("unified", {"planner", "executor"})
    assert set(result["thresholds"]) == {f"{role}_{name}" for role in ROLES for name in ("lookup", "format")}
    assert set(result["thresholds"]) < set(result["measured"])


def test_the_same_seed_gives_the_same_folder(taught, model_folder, tmp_path):
    results = [warm_up(taught, "planner", tmp_path / name, seed=9, model_folder=model_folder) for name in ("a", "b")]
    assert results[0]["measured"] == results[1]["measured"]
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("a", "b")]
    assert weights[0] == weights[1]


def test_a_trial_run_has_no_gate(taught, model_folder, tmp_path):
    type(taught).changes = {}
    result = warm_up(taught, "planner", tmp_path / "out", model_folder=model_folder, steps=2)
    assert (result["steps"], result["gated"], result["measured"]) == (2, False, {})
    assert (tmp_path / "out" / RESULT).exists()


@pytest.fixture
def strict(taught, monkeypatch):
    def with_(**changes):
        monkeypatch.setattr(type(taught), "changes", changes)
        return taught

    return with_


def test_a_gate_that_fails_is_named_and_nothing_passes_for_finished(strict, model_folder, tmp_path):
    environment = strict(thresholds={"lookup": 0.0, "format": 1.1})
    with pytest.raises(GateFailed, match=r"warm-up of the planner: format \d\.\d+, at least 1.1 is needed"):
        warm_up(environment, "planner", tmp_path / "out", model_folder=model_folder)
    assert not (tmp_path / "out" / RESULT).exists()
    assert "format" in json.loads((tmp_path / "out" / FAILED_RESULT).read_text())["measured"]
    assert (tmp_path / "out" / "model.safetensors").exists()


def test_a_look_up_that_is_never_learned_is_named(strict, model_folder, tmp_path):
    pace = strict().curriculum("planner").pace.model_copy(update={"gate": 1.0})
    environment = strict(pace=pace)
    message = r"the exercises' look-up is \d\.\d+ after 6 steps, at least 1 is needed"
    with pytest.raises(GateFailed, match=message):
        warm_up(environment, "planner", tmp_path / "out", model_folder=model_folder)


def test_a_start_that_failed_is_drawn_anew(strict, monkeypatch, tmp_path):
    pace = strict().curriculum("planner").pace.model_copy(update={"gate": 1.0, "starts": 3})
    tokenizer, made = build_tokenizer("planner"), []

    def from_scratch():
        made.append(AutoModelForCausalLM.from_pretrained(save_model(tmp_path / f"start-{len(made)}", "planner")))
        return made[-1], tokenizer

    with pytest.raises(GateFailed, match="after 6 steps"):
        warm_up(strict(pace=pace, from_scratch=from_scratch), "planner", tmp_path / "out")
    assert len(made) == json.loads((tmp_path / "out" / FAILED_RESULT).read_text())["starts"] == 3
    weights = [model.model.embed_tokens.weight for model in made[:2]]
    assert not torch.equal(*weights)


def test_an_old_result_does_not_outlive_a_new_failure(strict, model_folder, tmp_path):
    warm_up(strict(), "planner", tmp_path / "out", model_folder=model_folder)
    with pytest.raises(GateFailed):
        warm_up(strict(thresholds={"format": 1.1}), "planner", tmp_path / "out", model_folder=model_folder)
    assert not (tmp_path / "out" / RESULT).exists()


def test_an_environment_without_a_curriculum(tmp_path):
    with pytest.raises(UserError, match="environment parity has no warm-up for the planner"):
        warm_up(Parity(), "planner", tmp_path / "out")


def test_a_single_model_is_not_taught_to_delegate(taught, model_folder, tmp_path):
    with pytest.raises(UserError, match="taught has no warm-up for the team single: its demonstrations call delegate"):
        warm_up(taught.of_team("single"), "planner", tmp_path / "out", model_folder=model_folder)


def test_no_model_to_start_from(taught, tmp_path):
    with pytest.raises(UserError, match="environment taught makes no model of its own: name a folder with --model"):
        warm_up(taught, "planner", tmp_path / "out")


def test_a_missing_model_folder_is_named(taught, tmp_path):
    with pytest.raises(UserError, match="nowhere"):
        warm_up(taught, "planner", tmp_path / "out", model_folder=tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("figures", "expected"),
    [
        ({"lookup": 0.95, "format": 0.8}, []),
        ({"lookup": 0.949, "format": 0.8}, ["lookup 0.949, at least 0.95 is needed"]),
        (
            {"lookup": 0.2, "format": 0.1},
            ["lookup 0.200, at least 0.95 is needed", "format 0.100, at least 0.8 is needed"],
        ),
    ],
)
def test_shortfalls(figures, expected):
    assert shortfalls(figures, {"lookup": 0.95, "format": 0.8}) == expected


def test_without_means_nothing_is_measured(taught, model_folder):
    curriculum = replace(taught.curriculum("planner"), lookup=None, partner=None)
    assert measure(None, [Seat("planner", taught, curriculum, None, None)], 0) == ({}, {})


def test_the_planner_is_told_of_delegate_as_the_server_tells_it(taught):
    assert Toolbox(tools_of(taught, "planner")).schemas() == SERVED_DELEGATE.schemas()


@pytest.mark.parametrize("role", ["planner", "executor"])
def test_the_demos_models_start_trial_runs(role, tmp_path):
    from shared.environments.atlas import Atlas

    result = warm_up(Atlas(), role, tmp_path, seed=1, steps=2)
    assert result["steps"] == 2
    model = AutoModelForCausalLM.from_pretrained(tmp_path)
    first, last = model.config.frozen_embedding_rows
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    assert len(tokenizer) == model.config.vocab_size
    assert first <= tokenizer.convert_tokens_to_ids("Paris") < last
    assert model.config.hidden_size == {"planner": 96, "executor": 128}[role]
    assert model.dtype == torch.float32
