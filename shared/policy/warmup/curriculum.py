"""What an environment offers to `tandem warmup` for one role: demonstrations, and whatever else it has.

Demonstrations alone suffice for a model that can already read and copy. A model from scratch also needs exercises, and
its gate is then the look-up that they teach.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from shared.agents.limits import Limits
from shared.environments.base import Split, ToolResult
from shared.policy.warmup.conversation import Conversation, Row
from shared.policy.warmup.faults import DrawFault
from shared.policy.warmup.pace import Pace

Thresholds = dict[str, float]


@dataclass(frozen=True)
class Curriculum:
    """One role's warm-up. Everything that draws is a pure function of the generator that it is given."""

    demonstration: Callable[[random.Random], Conversation]
    """A conversation over training tasks."""
    from_scratch: Callable[[], tuple[PreTrainedModel, PreTrainedTokenizerBase]] | None = None
    """A new model, drawn from torch's global generator, and its tokenizer; None: the user names a model folder."""
    exercise: Callable[[random.Random, bool], Row] | None = None
    """A look-up exercise; True: with few frequent keys. Only the names to look up are learned."""
    lookup: Callable[[random.Random], Row] | None = None
    """A row over validation entities whose learned tokens are names that stand in the row: the look-up gate."""
    partner: Callable[[Split, str], ToolResult] | None = None
    """Planner only: a perfect executor's answer to a subtask, for the format gate."""
    subtask: Callable[[Split, random.Random], str] | None = None
    """Executor only: a subtask that a planner might delegate, for the format gate."""
    right: Callable[[Split, str, str], float] | None = None
    """Executor only: whether an answer to a subtask is right, in [0, 1]; measured, and no gate."""
    fault: DrawFault | None = None
    """For the measurement of how many episodes recover from a fault; no gate unless `thresholds` has it."""
    limits: Limits = field(default_factory=Limits)
    """Of the episodes of the format gate."""
    pace: Pace = field(default_factory=Pace)
    thresholds: Thresholds = field(default_factory=dict)
    """The least value of each measured figure (`lookup`, `format`, `recovery_format`) that passes."""
