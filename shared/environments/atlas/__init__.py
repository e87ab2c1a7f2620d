"""Atlas: multi-hop questions over real GeoNames data, with articles to search, open and read.

The planner is asked `currency of country of Paris`; the executor searches (BM25), opens articles and answers
`country: France`. Answer keys are computed from the data; the splits share no entity (world.py).

Options make the world harder or easier: longer chains (`hops`), an expert that knows less (`expert`), demonstrations
with fewer bad choices (`executor_errors`) or with recovery from faults (`recovery`).
"""

from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Literal, get_args

from shared.environments.atlas import calculator
from shared.environments.atlas.articles import NOTHING, render_article, shuffled_lines
from shared.environments.atlas.expert import answer_stands, matcher, names_opened_article
from shared.environments.atlas.habits import Habits
from shared.environments.atlas.instructions import instructions
from shared.environments.atlas.search import SearchIndex
from shared.environments.atlas.tasks import HOPS, draw_task
from shared.environments.atlas.world import ALL_RELATIONS, load_world
from shared.environments.base import SPLITS, Environment, Split, Task, ToolContext, ToolError, Trace, reward, tool
from shared.errors import UserError
from shared.schemas.base import Role

if TYPE_CHECKING:
    from shared.policy.warmup.curriculum import Curriculum

Expert = Literal["exact", "grounded"]


class Atlas(Environment):
    """The environment of the demo. `world_seed` draws which countries are in which split.

    The demo's own models were warmed up on the protocol; `describe_tools` tells any other model about it.
    """

    name: ClassVar[str] = "atlas"

    def __init__(
        self,
        world_seed: int = 0,
        describe_tools: bool = False,
        hops: int = HOPS,
        expert: Expert = "exact",
        executor_errors: float = 1.0,
        recovery: float = 0.0,
    ) -> None:
        """UserError for an option that is out of its range."""
        if expert not in get_args(Expert):
            raise UserError(f"environment atlas: expert is {expert!r}; it is {' or '.join(get_args(Expert))}")
        self.describe_tools = describe_tools
        self.habits = Habits(hops, executor_errors, recovery)
        self.expert: Expert = expert
        self.world = load_world(world_seed)
        self._titles = matcher(self.world.entities)
        self._relations = matcher(ALL_RELATIONS)

    @cached_property
    def indexes(self) -> dict[Split, SearchIndex]:
        """One index a split: nothing of another split can be found."""
        entities = self.world.entities
        articles = {s: {t: render_article(t, entities[t].facts) for t in self.world.titles[s]} for s in SPLITS}
        return {split: SearchIndex(of_split) for split, of_split in articles.items()}

    def task(self, split: Split, seed: int, index: int) -> Task:
        """A question of 0 to `hops` hops about an entity of `split`; its answer is computed from the data."""
        return draw_task(self.world, split, seed, index, self.habits.hops)

    def system_prompt(self, role: Role) -> str:
        """The instructions, for models that are told about the tools; else only the role, where one model has both."""
        return instructions(self.team, role, self.describe_tools)

    # The tools are coroutines though they wait for nothing: they take microseconds, and a thread would cost more.

    @tool
    async def search(self, context: ToolContext, query: str) -> str:
        """At most three titles of articles that match the query, in no order of merit, or `none`."""
        return "; ".join(self.indexes[context.split].shown(query, context.task_id)) or NOTHING

    @tool
    async def open(self, context: ToolContext, title: str) -> str:
        """The article of that title."""
        entity = self.world.entities.get(title)
        if entity is None or entity.split != context.split:
            raise ToolError(NOTHING)
        return render_article(title, shuffled_lines(entity.facts, context.task_id, title))

    @tool
    async def calculate(self, expression: str) -> str:
        """The value of an arithmetic expression."""
        try:
            return str(calculator.calculate(expression))
        except ValueError as error:
            raise ToolError(str(error)) from None

    @reward("correctness")
    def same_name(self, task: Task, answer: str) -> float:
        """The answer is the name, whatever its case and spacing."""
        return float(" ".join(answer.split()).casefold() == task.answer.casefold())

    def expert_score(self, trace: Trace) -> float:
        """The exact expert's score; or only whether the answer stands in an opened article, whatever was asked."""
        if self.expert == "grounded":
            return float(answer_stands(trace, ALL_RELATIONS, None))
        return super().expert_score(trace)

    @reward("expert", weight=0.5)
    def opened_named_article(self, trace: Trace) -> float:
        """It opened an article whose title the subtask names; 0 where the subtask names no known thing or relation."""
        return float(self._asks_known(trace) and names_opened_article(trace, self._titles))

    @reward("expert", weight=0.5)
    def read_line(self, trace: Trace) -> float:
        """Its answer stands in an opened article, in the line of the relation that the subtask names, if it names one
        and a known thing; else in any line."""
        named = {found.casefold() for found in self._relations.findall(trace.subtask)}
        relations = named if self._asks_known(trace) else {None}
        return float(any(answer_stands(trace, ALL_RELATIONS, relation) for relation in relations))

    def curriculum(self, role: Role) -> "Curriculum":
        """Models from scratch, look-up exercises and scripted demonstrations."""
        from shared.environments.atlas.curriculum import build_curriculum  # torch is needed for the warm-up only

        return build_curriculum(self, role)

    def _asks_known(self, trace: Trace) -> bool:
        return bool(self._titles.search(trace.subtask) and self._relations.search(trace.subtask))
