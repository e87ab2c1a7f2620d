"""What Atlas gives to `tandem warmup`: models from scratch, exercises, demonstrations, and the means of its gates."""

import random
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from shared.agents.chat import ChatFormat
from shared.agents.limits import Limits
from shared.agents.protocol import render_answer
from shared.environments.atlas.articles import NOTHING, render_article, shuffled_lines
from shared.environments.atlas.demonstrations import call, executor_demonstration, planner_demonstration
from shared.environments.atlas.exercises import Exercises
from shared.environments.atlas.models import build_model
from shared.environments.atlas.tasks import ask
from shared.environments.atlas.tokenizer import MAX_TOKENS, build_tokenizer, vocabulary
from shared.environments.atlas.world import World
from shared.environments.base import Split, ToolResult
from shared.policy.warmup.conversation import Conversation, Row, Turn, render
from shared.policy.warmup.curriculum import Curriculum
from shared.policy.warmup.pace import Pace
from shared.schemas.base import Role

if TYPE_CHECKING:
    from shared.environments.atlas import Atlas

LIMITS = Limits(max_turns=5, max_calls=4, max_new_tokens=8, max_context_tokens=MAX_TOKENS - 8)
PACE: dict[Role, Pace] = {
    "planner": Pace(lr=4e-3, exercises=0.4, least_steps=180, decay_steps=250, most_steps=900),
    "executor": Pace(lr=4e-3, embedding_lr=0.1, exercises=0.9, least_steps=180, decay_steps=250, most_steps=900),
}
ANY_PACE = Pace(batch=8, lr=1e-4, rise_steps=5, least_steps=5, decay_steps=45)
THRESHOLDS: dict[Role, dict[str, float]] = {
    "planner": {"lookup": 0.95, "format": 0.95},
    "executor": {"lookup": 0.95, "format": 0.80},
}


def build_curriculum(atlas: "Atlas", role: Role) -> Curriculum:
    """The curriculum of `role`: for the demo's own models, or for any other, which are told about their tools."""
    return _for_any_model(atlas, role) if atlas.describe_tools else _for_own_model(atlas, role)


def _for_any_model(atlas: "Atlas", role: Role) -> Curriculum:
    """Demonstrations alone: the exercises are ids of the demo's own tokenizers."""
    own = _for_own_model(atlas, role)
    thresholds = {"format": own.thresholds["format"]}
    return Curriculum(own.demonstration, partner=own.partner, subtask=own.subtask, pace=ANY_PACE, thresholds=thresholds)


def _for_own_model(atlas: "Atlas", role: Role) -> Curriculum:
    world = atlas.world
    exercises = Exercises(vocabulary(world, role))
    if role == "planner":
        return Curriculum(
            demonstration=partial(planner_demonstration, world),
            from_scratch=partial(_from_scratch, world, role),
            exercise=exercises.planner,
            lookup=_validation_exercise(world),
            partner=partial(_perfect_answer, world),
            limits=LIMITS,
            pace=PACE[role],
            thresholds=THRESHOLDS[role],
        )
    chat, names = ChatFormat(build_tokenizer(world, role)), vocabulary(world, role).names
    return Curriculum(
        demonstration=partial(executor_demonstration, world, atlas.indexes["train"]),
        from_scratch=partial(_from_scratch, world, role),
        exercise=exercises.executor,
        lookup=partial(_lookup_row, atlas, chat, names),
        subtask=partial(_draw_subtask, world),
        limits=LIMITS,
        pace=PACE[role],
        thresholds=THRESHOLDS[role],
    )


def _validation_exercise(world: World) -> Callable[[random.Random], Row]:
    """Chains over validation names: in a conversation the next name is partly a choice, which is taught badly."""
    exercises = Exercises(vocabulary(world, "planner"), world.titles["validation"])
    return partial(exercises.planner, skewed=False)


def _from_scratch(world: World, role: Role) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    return build_model(role, vocabulary(world, role)), build_tokenizer(world, role)


def _perfect_answer(world: World, split: Split, subtask: str) -> ToolResult:
    """What a perfect executor says to `country of Paris`."""
    relation, _, name = subtask.partition(" of ")
    entity = world.entities.get(name)
    known = entity is not None and entity.split == split and relation in entity.facts
    return ToolResult("ok", f"{relation}: {entity.facts[relation] if entity and known else NOTHING}")


def _draw_subtask(world: World, split: Split, rng: random.Random) -> str:
    title = rng.choice(world.titles[split])
    return ask(title, rng.choice(list(world.entities[title].facts)))


def _lookup_row(atlas: "Atlas", chat: ChatFormat, names: tuple[int, int], rng: random.Random) -> Row:
    """A faultless conversation of the executor over a validation entity; measured is the value that it copies."""
    token_ids, learned = render(chat, _faultless_executor(atlas, rng))
    return Row(token_ids, [of and names[0] <= token < names[1] for token, of in zip(token_ids, learned, strict=True)])


def _faultless_executor(atlas: "Atlas", rng: random.Random) -> Conversation:
    title = rng.choice(atlas.world.titles["validation"])
    facts = shuffled_lines(atlas.world.entities[title].facts, rng.random())
    relation = rng.choice(list(facts))
    hits = "; ".join(atlas.indexes["validation"].shown(title, str(rng.random())))
    article = ToolResult("ok", render_article(title, facts))
    turns = [
        Turn(call("search", "query", title), (ToolResult("ok", hits),), learned=False),
        Turn(call("open", "title", title), (article,), learned=False),
        Turn(render_answer(f"{relation}: {facts[relation]}")),
    ]
    return Conversation(ask(title, relation), tuple(turns))
