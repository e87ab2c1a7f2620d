"""One warm-up, start to end: model and tokenizer, its seats, training, gates, and the folder with `warmup.json`."""

import json
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from shared.config import parse
from shared.environments.base import Environment
from shared.errors import UserError
from shared.policy.model import load_model, parameter_count
from shared.policy.tokenizer import load_tokenizer
from shared.policy.warmup.curriculum import Curriculum
from shared.policy.warmup.demonstrations import limited
from shared.policy.warmup.gates import measure, shortfalls, thresholds
from shared.policy.warmup.loop import Progress, train
from shared.policy.warmup.pace import Pace, Pacer
from shared.policy.warmup.seat import Seat, check_calls, roles_of, take_seat
from shared.policy.weights import save_weights
from shared.schemas.base import MAX_INTEGER, Role

RESULT, FAILED_RESULT = "warmup.json", "warmup.failed.json"


class GateFailed(UserError):
    """The warmed-up model does not hold what it must."""


def warm_up(
    environment: Environment,
    role: Role,
    out: Path,
    *,
    seed: int = 0,
    model_folder: Path | None = None,
    steps: int | None = None,
    demonstrations: int | None = None,
    pace: Mapping[str, Any] | None = None,
    device: torch.device | None = None,
    report: Callable[[Progress], None] = lambda _: None,
) -> dict[str, Any]:
    """Warm up the model of `role`, and write a Hugging Face folder to `out`; returns what its `warmup.json` says.

    The team is the environment's (`Environment.of_team`); a team of one model has the role planner. With `steps`, just
    so many, and no gate: a trial run. With `demonstrations`, that many are drawn once, and nothing else is learned.
    `pace` replaces fields of the curriculum's.

    GateFailed names each figure that does not hold; the folder is then complete but for `warmup.json`, whose content is
    in `warmup.failed.json`.
    """
    curricula = {
        one: _curriculum(environment, one, seed, demonstrations, pace or {}) for one in roles_of(environment, role)
    }
    out.mkdir(parents=True, exist_ok=True)
    for name in (RESULT, FAILED_RESULT):
        (out / name).unlink(missing_ok=True)
    started, device = time.process_time(), device or torch.device("cpu")
    for start in range(1 if model_folder is not None else curricula[role].pace.starts):
        warmed = _train(environment, curricula, _seed_of(seed, start), steps, report, model_folder, device)
        if not warmed.pacer.failed:
            break
    seats, pacer = warmed.seats, warmed.pacer
    seconds = time.process_time() - started
    gated = steps is None
    figures, recovery = measure(warmed.model, seats, seed) if gated and not pacer.failed else ({}, {})
    save_weights(warmed.model, out)
    warmed.tokenizer.save_pretrained(out)
    result = {
        "environment": environment.name,
        "team": environment.team,
        "role": role,
        "seed": seed,
        "demonstrations": demonstrations,
        **_told(warmed),
        "starts": start + 1,
        "gated": gated,
        "measured": figures,
        "thresholds": thresholds(seats),
        "recovery": recovery,
        "training_cpu_seconds": round(seconds, 2),
        "gate_cpu_seconds": round(time.process_time() - started - seconds, 2),
    }
    wrong = _shortfalls(pacer, seats, figures) if gated else []
    (out / (FAILED_RESULT if wrong else RESULT)).write_text(json.dumps(result, indent=2) + "\n")
    if wrong:
        whose = f"the {role}" if environment.team == "pair" else f"the team {environment.team}"
        raise GateFailed(f"warm-up of {whose}: {'; '.join(wrong)} (seed {seed}; see {out / FAILED_RESULT})")
    return result


@dataclass(frozen=True, slots=True)
class _Warmed:
    """One start, and what became of it."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    seats: list[Seat]
    pacer: Pacer


def _told(warmed: _Warmed) -> dict[str, Any]:
    """What `warmup.json` says of the start that was kept."""
    pacer = warmed.pacer
    return {
        "parameters": parameter_count(warmed.model),
        "steps": pacer.step,
        "gate_at_step": pacer.decay_from,
        "smoothed_lookup": pacer.lookup,
        "limits": {seat.role: seat.curriculum.limits.model_dump() for seat in warmed.seats},
    }


def _seed_of(seed: int, start: int) -> int:
    """The first start has the seed itself."""
    return seed if start == 0 else random.Random(f"{seed}/{start}").randrange(MAX_INTEGER)


def _train(
    environment: Environment,
    curricula: Mapping[Role, Curriculum],
    seed: int,
    steps: int | None,
    report: Callable[[Progress], None],
    folder: Path | None,
    device: torch.device,
) -> _Warmed:
    torch.manual_seed(seed)
    first, *_ = curricula.values()
    model, tokenizer = _start(environment, first, folder, device)
    seats = [take_seat(environment, role, curriculum, tokenizer) for role, curriculum in curricula.items()]
    model.train()
    pacer = train(model, seats, seed, steps, report)
    model.eval()
    return _Warmed(model, tokenizer, seats, pacer)


def _curriculum(
    environment: Environment, role: Role, seed: int, demonstrations: int | None, pace: Mapping[str, Any]
) -> Curriculum:
    curriculum = environment.curriculum(role)
    if curriculum is None:
        raise UserError(f"environment {environment.name} has no warm-up for the {role}")
    check_calls(environment, role, curriculum)
    if demonstrations is not None:
        curriculum = limited(curriculum, demonstrations, seed)
    return replace(curriculum, pace=parse(Pace, {**curriculum.pace.model_dump(), **pace}, "pace"))


def _start(
    environment: Environment, curriculum: Curriculum, folder: Path | None, device: torch.device
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    if folder is not None:
        return load_model(folder, device), load_tokenizer(folder)
    if curriculum.from_scratch is None:
        raise UserError(f"environment {environment.name} makes no model of its own: name a folder with --model")
    model, tokenizer = curriculum.from_scratch()
    return model.to(device), tokenizer


def _shortfalls(pacer: Pacer, seats: Sequence[Seat], figures: Mapping[str, float]) -> list[str]:
    if pacer.failed:
        found, least = pacer.lookup, pacer.pace.gate
        return [f"the exercises' look-up is {found:.3f} after {pacer.step} steps, at least {least:g} is needed"]
    return shortfalls(figures, thresholds(seats))
