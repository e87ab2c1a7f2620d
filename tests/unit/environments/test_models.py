"""The start of the demo models: what each part of it does, before any training."""

import pytest
import torch

from shared.environments.atlas.models import HIDDEN, build_model
from shared.environments.atlas.tokenizer import Speaker, vocabulary
from shared.policy.model import parameter_count

SPEAKERS: tuple[Speaker, ...] = ("planner", "executor", "one")


@pytest.fixture(params=SPEAKERS)
def model(request, world):
    torch.manual_seed(5)
    return build_model(request.param, vocabulary(world, request.param)).eval()


def test_shape(model, world):
    role = next(role for role, hidden in HIDDEN.items() if hidden == model.config.hidden_size)
    assert model.config.num_hidden_layers == 2
    assert model.config.vocab_size == len(vocabulary(world, role).words)
    assert model.get_input_embeddings().weight is model.get_output_embeddings().weight
    assert parameter_count(model) < (800_000 if role == "one" else 500_000)


def test_one_model_has_the_parameters_of_a_pair(world):
    sizes = {speaker: parameter_count(build_model(speaker, vocabulary(world, speaker))) for speaker in SPEAKERS}
    assert sizes["one"] == pytest.approx(sizes["planner"] + sizes["executor"], rel=0.03)


def test_the_frozen_rows_are_the_names(model, world):
    role = next(role for role, hidden in HIDDEN.items() if hidden == model.config.hidden_size)
    assert tuple(model.config.frozen_embedding_rows) == vocabulary(world, role).names


def test_names_and_protocol_are_told_apart_by_four_dimensions(model):
    first, last = model.config.frozen_embedding_rows
    weight = model.get_input_embeddings().weight
    assert (weight[first:last, 4:8] == -0.5).all()
    assert (weight[:first, 4:8] == 0.5).all()
    assert (weight[last:, 4:8] == 0.5).all()


def test_head_0_of_layer_0_looks_at_the_previous_token(model):
    model.set_attn_implementation("eager")
    ids = torch.randint(0, model.config.vocab_size, (2, 40))
    with torch.inference_mode():
        attention = model(input_ids=ids, output_attentions=True).attentions[0][:, 0]
    previous = attention.diagonal(offset=-1, dim1=1, dim2=2)
    assert previous.min() > 0.5


def test_a_seed_gives_the_same_start(world):
    weights = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        weights.append(build_model("planner", vocabulary(world, "planner")).model.embed_tokens.weight)
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
