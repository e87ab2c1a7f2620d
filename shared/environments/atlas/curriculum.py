"""What Atlas gives to `tandem warmup`: models from scratch, exercises, demonstrations, and the means of its gates.

A pair has a model for each role. The one model of another team has the words and the size of both; from demonstrations
of the same kind, with the same bad choices, it learns to work through all hops itself (single.py), or both roles.
"""

import random
from collections.abc import Callable
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from shared.agents.chat import ChatFormat
from shared.agents.limits import Limits
from shared.agents.toolbox import Toolbox
from shared.environments.atlas.articles import NOTHING
from shared.environments.atlas.demonstrations import executor_demonstration, planner_demonstration
from shared.environments.atlas.exercises import Exercises
from shared.environments.atlas.faultless import copying_row, lookup_row
from shared.environments.atlas.models import build_model
from shared.environments.atlas.pace import PACE, PACE_OF_ANY, THRESHOLDS
from shared.environments.atlas.recovery import CALLS_A_HOP, Faults
from shared.environments.atlas.single import single_demonstration
from shared.environments.atlas.tasks import ask
from shared.environments.atlas.tokenizer import MAX_TOKENS, THINK, Speaker, Vocabulary, build_tokenizer, vocabulary
from shared.environments.atlas.world import World
from shared.environments.base import Split, ToolResult
from shared.policy.warmup.conversation import Row
from shared.policy.warmup.curriculum import Curriculum
from shared.policy.warmup.faults import DrawFault
from shared.policy.warmup.seat import delegate, works_alone
from shared.schemas.base import Role

if TYPE_CHECKING:
    from shared.environments.atlas import Atlas


def build_curriculum(atlas: "Atlas", role: Role) -> Curriculum:
    """The curriculum of `role`: for the demo's own models, or for any other, which are told about their tools."""
    own = _own(_Means(atlas, role), role, works_alone(atlas, role))
    return _for_any_model(own) if atlas.describe_tools else own


def _own(means: "_Means", role: Role, alone: bool) -> Curriculum:
    if alone:
        return means.single()
    return means.planner() if role == "planner" else means.executor()


def _for_any_model(own: Curriculum) -> Curriculum:
    """Demonstrations alone: the exercises are ids of the demo's own tokenizers."""
    return Curriculum(
        own.demonstration,
        partner=own.partner,
        subtask=own.subtask,
        right=own.right,
        fault=own.fault,
        limits=Limits(max_turns=max(Limits().max_turns, own.limits.max_turns)),
        pace=PACE_OF_ANY,
        thresholds={"format": own.thresholds["format"]},
    )


class _Means:
    """The parts of one curriculum. A model has the words of all faults where it is taught to recover from them."""

    def __init__(self, atlas: "Atlas", role: Role) -> None:
        self._atlas = atlas
        self._world = atlas.world
        self._speaker: Speaker = role if atlas.team == "pair" else "one"
        told = self._speaker == "one" or atlas.habits.recovery > 0 or atlas.describe_tools
        self._faults = Faults(atlas.world, Toolbox(atlas.tools()), Toolbox({"delegate": delegate}), told)
        self._more = self._faults.words() if told else ()

    def planner(self) -> Curriculum:
        """Delegations, and chains of names to copy."""
        fault, unified = self._faults.planner, self._atlas.team == "unified"
        return Curriculum(
            demonstration=partial(planner_demonstration, self._world, **self._manner(fault)),
            from_scratch=self._from_scratch,
            exercise=None if unified else Exercises(self._vocabulary).planner,  # it keeps the look-up from being found
            lookup=self._copying() if unified else self._chains(),
            partner=partial(perfect_answer, self._world),
            fault=fault,
            limits=self._limits(self._atlas.habits.most_calls),
            pace=PACE["unified" if unified else "planner"],
            thresholds=THRESHOLDS["planner"],
        )

    def executor(self) -> Curriculum:
        """Searches, articles and the lines to read from them."""
        fault = self._faults.executor
        return Curriculum(
            demonstration=partial(
                executor_demonstration, self._world, self._atlas.indexes["train"], **self._manner(fault)
            ),
            from_scratch=self._from_scratch,
            exercise=Exercises(self._vocabulary).executor,
            lookup=partial(lookup_row, self._atlas, self._chat, self._vocabulary.names, False),
            subtask=partial(_draw_subtask, self._world),
            right=partial(_is_right, self._world),
            fault=fault,
            limits=self._limits(self._atlas.habits.most_calls),
            pace=PACE["unified" if self._atlas.team == "unified" else "executor"],
            thresholds=THRESHOLDS["executor"],
        )

    def single(self) -> Curriculum:
        """An executor's searches and articles over all hops of a planner's question."""
        fault = self._faults.single
        return Curriculum(
            demonstration=partial(
                single_demonstration, self._world, self._atlas.indexes["train"], **self._manner(fault)
            ),
            from_scratch=self._from_scratch,
            exercise=Exercises(self._vocabulary, opening=THINK).executor,
            lookup=partial(lookup_row, self._atlas, self._chat, self._vocabulary.names, True),
            fault=fault,
            limits=self._limits(CALLS_A_HOP * self._atlas.habits.most_calls, max_new_tokens=16),
            pace=PACE["single"],
            thresholds=THRESHOLDS["single"],
        )

    def _copying(self) -> Callable[[random.Random], Row]:
        return partial(copying_row, self._atlas, self._chat, self._vocabulary.names)

    def _chains(self) -> Callable[[random.Random], Row]:
        """What the exercises teach, over validation names."""
        return partial(Exercises(self._vocabulary, self._world.titles["validation"]).planner, skewed=False)

    @cached_property
    def _vocabulary(self) -> Vocabulary:
        return vocabulary(self._world, self._speaker, self._more)

    @cached_property
    def _chat(self) -> ChatFormat:
        return ChatFormat(build_tokenizer(self._world, self._speaker, self._more))

    def _manner(self, fault: DrawFault) -> dict[str, Any]:
        habits = self._atlas.habits
        return {"habits": habits, "fault": fault if habits.recovery else None}

    def _limits(self, calls: int, max_new_tokens: int = 8) -> Limits:
        context = MAX_TOKENS[self._speaker] - 8
        return Limits(max_turns=calls + 1, max_calls=calls, max_new_tokens=max_new_tokens, max_context_tokens=context)

    def _from_scratch(self) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
        model = build_model(self._speaker, self._vocabulary)
        return model, build_tokenizer(self._world, self._speaker, self._more)


def perfect_answer(world: World, split: Split, subtask: str) -> ToolResult:
    """What a perfect executor says to `country of Paris`."""
    relation, _, name = subtask.partition(" of ")
    entity = world.entities.get(name)
    known = entity is not None and entity.split == split and relation in entity.facts
    return ToolResult("ok", f"{relation}: {entity.facts[relation] if entity and known else NOTHING}")


def _is_right(world: World, split: Split, subtask: str, answer: str) -> float:
    return float(answer == perfect_answer(world, split, subtask).content)


def _draw_subtask(world: World, split: Split, rng: random.Random) -> str:
    title = rng.choice(world.titles[split])
    return ask(title, rng.choice(list(world.entities[title].facts)))
