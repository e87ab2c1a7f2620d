"""The trainer's gradient against ten plain lines in which every copy really stands in the batch."""

import random

import pytest
import torch

from shared.errors import InvalidInput, NotFound, TandemError, UserError
from shared.mgrpo.config import ObjectiveConfig
from shared.policy import logprobs
from shared.policy.batches import Example, collate, join, split
from shared.policy.config import TrainerConfig
from shared.policy.logprobs import check_head, trained_logprobs
from shared.policy.schedule import learning_rate
from shared.policy.trainer_child import TrainerService
from shared.policy.training import Trainer
from shared.policy.types import TrainRow

from .tiny import WORDS, build_model


def examples(count=9, seed=5, dead=()):
    """Rows of mixed lengths, masks and multiplicities, whose log-probs differ from the model's."""
    rng = random.Random(seed)
    rows = []
    for i in range(count):
        length = rng.randrange(4, 40)
        mask = [0, 1, *(rng.randrange(2) for _ in range(length - 2))]
        rows.append(
            Example(
                trajectory=f"t{i}",
                token_ids=[rng.randrange(2, WORDS) for _ in range(length)],
                mask=mask,
                logprobs=[-4 - rng.random() if trained else 0.0 for trained in mask],
                advantage=0.0 if i in dead else rng.uniform(-2, 2),
                multiplicity=float(rng.randrange(1, 4)),
                dead=i in dead,
            )
        )
    return rows


def reference_gradient(model, rows, config, temperature=1.0):
    """GRPO, DAPO or Dr. GRPO with the copies made, row by row: no padding, no weights."""
    model.zero_grad()
    copies = [row for row in rows for _ in range(int(row.multiplicity))]
    tokens = sum(sum(row.mask) for row in copies)
    loss = 0.0
    for row in copies:
        logits = model(torch.tensor([row.token_ids])).logits[0, :-1] / temperature
        new = logits.log_softmax(-1).gather(1, torch.tensor(row.token_ids)[1:, None])[:, 0]
        keep = torch.tensor(row.mask)[1:].bool()
        rho = (new - torch.tensor(row.logprobs)[1:])[keep].exp()
        surrogate = torch.min(rho * row.advantage, rho.clamp(0.8, 1.28) * row.advantage)
        by = {"token": tokens, "constant": len(copies) * (config.constant_length or 1)}
        loss = loss - surrogate.sum() / by.get(config.loss_norm or "", len(copies) * len(rho))
    loss.backward()
    return loss.item(), gradient(model)


def gradient(model):
    return torch.cat([p.grad.flatten() for p in model.parameters()]).clone()


NORMS = [{}, {"loss_norm": "sequence"}, {"loss_norm": "token"}, {"loss_norm": "constant", "constant_length": 16}]


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("tied", [True, False])
def test_the_gradient_is_that_of_a_batch_with_real_copies(norm, tied):
    model, rows = build_model(tied=tied), examples()
    objective = ObjectiveConfig(**norm)
    loss, expected = reference_gradient(model, rows, objective)
    trainer = Trainer(model, TrainerConfig(micro_batch_tokens=60, objective=objective), total_steps=10)
    statistics = trainer.accumulate(rows, 1)
    assert expected.abs().max() > 1e-3
    assert statistics["loss"] == pytest.approx(loss, abs=1e-5)
    torch.testing.assert_close(gradient(model), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_the_temperature_of_sampling_is_that_of_training(temperature):
    model, rows = build_model(), examples()
    _, expected = reference_gradient(model, rows, ObjectiveConfig(), temperature)
    trainer = Trainer(model, TrainerConfig(), total_steps=10, temperature=temperature)
    trainer.accumulate(rows, 1)
    torch.testing.assert_close(gradient(model), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("chunk", [1000, 7])
def test_logprobs_keep_what_a_model_does_to_its_logits(chunk, monkeypatch):
    """A soft cap after the head (as Gemma 2 has it) is applied to the selected logits as well."""
    monkeypatch.setattr(logprobs, "CHUNK_LOGITS", {"cpu": chunk * WORDS})

    class Capped(type(build_model())):
        def forward(self, *args, **kwargs):
            output = super().forward(*args, **kwargs)
            output.logits = 2 * torch.tanh(output.logits / 2)
            return output

    model = Capped(build_model().config).eval()
    batch = collate(examples(4), model.device)
    got = trained_logprobs(model, batch.tokens, batch.mask, 1.0)
    full = model(batch.tokens).logits[:, :-1].log_softmax(-1).gather(2, batch.tokens[:, 1:, None])[..., 0]
    torch.testing.assert_close(got[:, 1:], full * batch.mask[:, 1:], atol=1e-5, rtol=0)


def test_a_model_whose_logits_take_more_than_its_hidden_states_is_refused():
    class Shifted(type(build_model())):
        def forward(self, input_ids=None, **kwargs):
            output = super().forward(input_ids=input_ids, **kwargs)
            if input_ids is not None:
                output.logits = output.logits + torch.arange(WORDS)
            return output

    check_head(build_model())
    with pytest.raises(UserError, match="Shifted cannot be trained"):
        check_head(Shifted(build_model().config).eval())


def test_a_model_whose_body_is_not_named_is_refused():
    class Nameless(type(build_model())):
        base_model_prefix = "nowhere"

    with pytest.raises(UserError, match="Nameless cannot be trained: it has no body"):
        check_head(Nameless(build_model().config).eval())


def test_a_model_without_layers_to_recompute_is_refused(monkeypatch):
    monkeypatch.setattr("shared.policy.recompute.GradientCheckpointingLayer", torch.nn.Bilinear)
    with pytest.raises(UserError, match="gradient_checkpointing: LlamaForCausalLM"):
        Trainer(build_model(), TrainerConfig(gradient_checkpointing=True))


def test_rows_of_dead_groups_count_and_do_not_run():
    model = build_model()
    rows = examples(dead={0, 4})
    _, expected = reference_gradient(
        model, rows, ObjectiveConfig()
    )  # their advantage is 0: in the mean, without a loss
    trainer = Trainer(model, TrainerConfig(), total_steps=10)
    seen = rows_seen(model)
    statistics = trainer.accumulate(rows, 1)
    torch.testing.assert_close(gradient(model), expected, atol=1e-5, rtol=0)
    assert sum(seen) == 7
    assert (statistics["rows"], statistics["dead_rows"]) == (7, 2)


def rows_seen(model):
    """The number of rows of each forward pass of the layers."""
    seen = []
    model.model.layers[0].register_forward_pre_hook(lambda _, inputs: seen.append(len(inputs[0])))
    return seen


def test_each_distinct_row_runs_once_whatever_its_multiplicity():
    model, rows = build_model(), examples()
    seen = rows_seen(model)
    Trainer(model, TrainerConfig(micro_batch_tokens=80), total_steps=10).accumulate(rows, 1)
    assert sum(seen) == len(rows) < sum(row.multiplicity for row in rows)
    assert len(seen) > 1


def test_a_batch_without_a_live_row_takes_no_step():
    model = build_model()
    before = gradient_free_copy(model)
    trainer = Trainer(model, TrainerConfig(), total_steps=10)
    assert trainer.accumulate(examples(3, dead={0, 1, 2}), 1) is None
    with pytest.raises(InvalidInput, match="step 1"):
        trainer.apply(1)
    assert same(model, before)


def gradient_free_copy(model):
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def same(model, state):
    return all(torch.equal(tensor, state[name]) for name, tensor in model.state_dict().items())


def test_apply_steps_and_discard_does_not():
    model = build_model()
    before = gradient_free_copy(model)
    trainer = Trainer(model, TrainerConfig(lr=1e-2), total_steps=10)
    trainer.accumulate(examples(), 1)
    trainer.discard()
    assert same(model, before)
    with pytest.raises(InvalidInput):
        trainer.apply(1)
    trainer.accumulate(examples(), 2)
    statistics = trainer.apply(2)
    assert not same(model, before)
    assert statistics["gradient_norm"] > 0
    with pytest.raises(InvalidInput, match="step 2"):
        trainer.apply(2)


def test_an_abandoned_gradient_does_not_leak_into_the_next():
    model = build_model()
    trainer = Trainer(model, TrainerConfig(), total_steps=10)
    trainer.accumulate(examples(seed=1), 1)
    trainer.accumulate(examples(seed=2), 1)
    second = gradient(model)
    trainer.accumulate(examples(seed=2), 1)
    torch.testing.assert_close(gradient(model), second, atol=0, rtol=0)


def test_training_raises_the_probability_of_good_tokens_and_lowers_that_of_bad_ones():
    model = build_model()
    rows = [row for row in examples() if abs(row.advantage) > 0.5]
    good = torch.tensor([row.advantage > 0 for row in rows])
    ordered = split(rows, 10**6)[0]
    batch = collate(ordered, model.device)
    advantage = torch.tensor([row.advantage for row in ordered])

    def mean_logprobs():
        with torch.no_grad():
            return trained_logprobs(model, batch.tokens, batch.mask, 1.0).sum(1) / batch.mask.sum(1)

    before = mean_logprobs()
    trainer = Trainer(model, TrainerConfig(lr=1e-3, warmup_steps=0), total_steps=10)
    trainer.accumulate(rows, 1)
    trainer.apply(1)
    moved = mean_logprobs() - before
    assert good.any()
    assert not good.all()
    assert (moved * advantage).sum() > 0


def test_frozen_embedding_rows_stay_as_they_are():
    model = build_model(frozen_embedding_rows=[10, 50])
    before = model.get_input_embeddings().weight.detach().clone()
    trainer = Trainer(model, TrainerConfig(lr=1e-2, weight_decay=0.1), total_steps=10)
    for step in (1, 2, 3):
        trainer.accumulate(examples(), step)
        trainer.apply(step)
    after = model.get_input_embeddings().weight.detach()
    assert torch.equal(after[10:50], before[10:50])
    assert not torch.equal(after[:10], before[:10])


def test_the_schedule_is_that_of_the_declared_run():
    trainer = Trainer(build_model(), TrainerConfig(lr=1.0, warmup_steps=0, final_lr_fraction=0.0))
    trainer.accumulate(examples(), 3)
    with pytest.raises(InvalidInput, match="schedule"):
        trainer.apply(3)
    trainer.schedule(5)
    assert trainer.apply(3)["learning_rate"] == pytest.approx(0.5)


def test_the_gradient_is_clipped_and_its_norm_reported():
    model = build_model()
    trainer = Trainer(model, TrainerConfig(max_grad_norm=1e-3), total_steps=10)
    trainer.accumulate(examples(), 1)
    norm = gradient(model).norm().item()
    clipped = []
    trainer.optimizer.register_step_pre_hook(lambda *_: clipped.append(gradient(model).norm().item()))
    assert trainer.apply(1)["gradient_norm"] == pytest.approx(norm, rel=1e-4)
    assert clipped == [pytest.approx(1e-3, rel=1e-3)]


def test_a_loss_that_is_not_finite_is_refused():
    model = build_model()
    with torch.no_grad():
        model.lm_head.weight[5] = float("inf")
    trainer = Trainer(model, TrainerConfig(), total_steps=10)
    with pytest.raises(TandemError, match="loss of step 1 is nan"):
        trainer.accumulate(examples(), 1)
    with pytest.raises(InvalidInput):
        trainer.apply(1)


def test_a_gradient_that_is_not_finite_changes_nothing():
    model = build_model()
    before = gradient_free_copy(model)
    trainer = Trainer(model, TrainerConfig(), total_steps=10)
    trainer.accumulate(examples(), 1)
    model.model.norm.weight.grad[3] = float("inf")
    with pytest.raises(TandemError, match="gradient norm of step 1 is inf"):
        trainer.apply(1)
    assert same(model, before)


def test_statistics_measure_the_gap_the_ratio_and_the_clipping():
    model, rows = build_model(), examples()
    statistics = Trainer(model, TrainerConfig(), total_steps=10).accumulate(rows, 1)
    tokens = gaps = ratios = 0.0
    largest = 0.0
    for row in rows:
        batch = collate([row], model.device)
        new = trained_logprobs(model, batch.tokens, batch.mask, 1.0).detach()
        gap = (new - batch.sampled)[batch.mask.bool()]
        tokens += row.multiplicity * len(gap)
        gaps += row.multiplicity * gap.abs().sum().item()
        ratios += row.multiplicity * gap.exp().sum().item()
        largest = max(largest, gap.abs().max().item())
    assert statistics["gap_mean"] == pytest.approx(gaps / tokens, rel=1e-4)
    assert statistics["gap_max"] == pytest.approx(largest, rel=1e-4)
    assert statistics["ratio_mean"] == pytest.approx(ratios / tokens, rel=1e-4)
    assert 0 < statistics["clip_fraction"] < 1
    assert statistics["trained_tokens"] == sum(sum(row.mask) for row in rows)


def test_a_divergence_is_measured_from_the_reference():
    model, rows = build_model(), examples()
    config = TrainerConfig(objective=ObjectiveConfig(kl_coef=0.1))
    assert Trainer(model, config, total_steps=10, reference=build_model()).accumulate(rows, 1)["kl"] == pytest.approx(0)
    assert Trainer(model, config, total_steps=10, reference=build_model(seed=1)).accumulate(rows, 1)["kl"] > 0.01


def test_bfloat16_products_train_float32_weights():
    model = build_model()
    trainer = Trainer(model, TrainerConfig(lr=1e-2), total_steps=10, autocast=True)
    _, exact = reference_gradient(model, examples(), ObjectiveConfig())
    trainer.accumulate(examples(), 1)
    found = gradient(model)
    assert found.dtype == torch.float32
    assert not torch.equal(found, exact)
    assert torch.cosine_similarity(found, exact, dim=0) > 0.95


def test_micro_batches_are_a_function_of_the_set_of_rows():
    rows = examples(20)
    shuffled = random.Random(1).sample(rows, len(rows))
    assert split(rows, 100) == split(shuffled, 100)
    for part in split(rows, 100):
        assert len(part) == 1 or len(part) * max(len(row.token_ids) for row in part) <= 100
    assert sorted(row.trajectory for part in split(rows, 100) for row in part) == sorted(row.trajectory for row in rows)


@pytest.mark.parametrize(
    ("row", "changes", "error"),
    [
        ({}, None, NotFound),
        ({}, {"mask": [0] * 12}, InvalidInput),
        ({}, {"mask": [1] * 12}, InvalidInput),
        ({"multiplicity": 0.0}, {}, InvalidInput),
        ({"advantage": float("nan")}, {}, InvalidInput),
    ],
)
def test_a_row_that_cannot_be_trained_on_is_named(make_trajectory, row, changes, error):
    found = {} if changes is None else {"t7": make_trajectory(id="t7", **changes)}
    with pytest.raises(error, match="t7"):
        join([TrainRow(**{"trajectory": "t7", "advantage": 1.0, "multiplicity": 1.0} | row)], found)


def test_a_trajectory_that_stands_twice_is_named(make_trajectory):
    row = TrainRow("t7", 1.0, 1.0)
    with pytest.raises(InvalidInput, match="t7"):
        join([row, row], {"t7": make_trajectory(id="t7")})


def test_the_learning_rate_rises_then_falls_to_its_last_fraction():
    config = TrainerConfig(lr=1.0, warmup_steps=4, final_lr_fraction=0.1)
    rates = [learning_rate(step, 100, config) for step in range(1, 101)]
    assert rates[0] == pytest.approx(0.25)
    assert max(rates) == rates[3]
    assert rates[3:] == sorted(rates[3:], reverse=True)
    assert rates[-1] == pytest.approx(0.1)
    assert learning_rate(1, 1, config) > 0


@pytest.mark.parametrize("deterministic", [True, False])
def test_a_deterministic_trainer_uses_such_algorithms_only(config, tmp_path, deterministic):
    settings = config.model_dump(mode="json", include={"model", "device", "dtype", "temperature", "trainer"})
    settings |= {"store": str(tmp_path / "t.sqlite"), "total_steps": 1, "threads": 1}
    settings["trainer"]["deterministic"] = deterministic
    try:
        TrainerService(settings)
        assert torch.are_deterministic_algorithms_enabled() is deterministic
    finally:
        torch.use_deterministic_algorithms(False)
