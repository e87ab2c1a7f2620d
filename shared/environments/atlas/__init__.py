"""Atlas: multi-hop questions over real GeoNames data, with articles to search, open and read.

The planner is asked `currency of country of Paris`; the executor searches (BM25), opens articles and answers
`country: France`. Answer keys are computed from the data; the splits share no entity (world.py).
"""

from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from shared.environments.atlas import calculator, expert
from shared.environments.atlas.articles import NOTHING, render_article, shuffled_lines
from shared.environments.atlas.search import SearchIndex
from shared.environments.atlas.tasks import draw_task
from shared.environments.atlas.world import ALL_RELATIONS, load_world
from shared.environments.base import SPLITS, Environment, Split, Task, ToolContext, ToolError, Trace, reward, tool
from shared.schemas.base import Role

if TYPE_CHECKING:
    from shared.policy.warmup.curriculum import Curriculum

INSTRUCTIONS: dict[Role, str] = {
    "planner": """\
A question is a chain such as `currency of country of Paris`. Find the answer by delegating one step at a time, such as
`country of Paris`. The final answer is the name alone.""",
    "executor": """\
Find what is asked, such as `country of Paris`, in the article of that title: search for it, open it, read it.
The final answer is the line of the article, such as `country: France`.""",
}


class Atlas(Environment):
    """The environment of the demo. `world_seed` draws which countries are in which split.

    The demo's own models were warmed up on the protocol; `describe_tools` tells any other model about it.
    """

    name: ClassVar[str] = "atlas"

    def __init__(self, world_seed: int = 0, describe_tools: bool = False) -> None:
        self.describe_tools = describe_tools
        self.world = load_world(world_seed)
        self._titles = expert.matcher(self.world.entities)
        self._relations = expert.matcher(ALL_RELATIONS)

    @cached_property
    def indexes(self) -> dict[Split, SearchIndex]:
        """One index a split: nothing of another split can be found."""
        entities = self.world.entities
        articles = {s: {t: render_article(t, entities[t].facts) for t in self.world.titles[s]} for s in SPLITS}
        return {split: SearchIndex(of_split) for split, of_split in articles.items()}

    def task(self, split: Split, seed: int, index: int) -> Task:
        """A question of 0 to 3 hops about an entity of `split`; its answer is computed from the data."""
        return draw_task(self.world, split, seed, index)

    def system_prompt(self, role: Role) -> str:
        """The instructions, for models that are told about the tools."""
        return INSTRUCTIONS[role] if self.describe_tools else ""

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

    @reward("expert", weight=0.5)
    def opened_named_article(self, trace: Trace) -> float:
        """It opened an article whose title the subtask names; 0 where the subtask names no known thing or relation."""
        return float(self._asks_known(trace) and expert.names_opened_article(trace, self._titles))

    @reward("expert", weight=0.5)
    def read_line(self, trace: Trace) -> float:
        """Its answer stands in an opened article, in the line of the relation that the subtask names, if it names one
        and a known thing; else in any line."""
        named = {found.casefold() for found in self._relations.findall(trace.subtask)}
        relations = named if self._asks_known(trace) else {None}
        return float(any(expert.answer_stands(trace, ALL_RELATIONS, relation) for relation in relations))

    def curriculum(self, role: Role) -> "Curriculum":
        """Models from scratch, look-up exercises and scripted demonstrations."""
        from shared.environments.atlas.curriculum import build_curriculum  # torch is needed for the warm-up only

        return build_curriculum(self, role)

    def _asks_known(self, trace: Trace) -> bool:
        return bool(self._titles.search(trace.subtask) and self._relations.search(trace.subtask))
