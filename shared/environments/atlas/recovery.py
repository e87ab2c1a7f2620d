"""The faults of atlas that recovery is taught and measured with, in the protocol's own words.

Whoever has the tools: a tool is too slow or fails, a tool that is not there, wrong arguments, a title that does not
exist. A planner: an executor that ends without an answer, a tool that is not there, wrong arguments. It never sees
`timeout`: a delegation that hangs is a fault of the infrastructure, and nobody's reward.
"""

from random import Random

from shared.agents.protocol import Call, render_call
from shared.agents.toolbox import Toolbox, failed, timed_out
from shared.environments.atlas.articles import NOTHING
from shared.environments.atlas.tasks import first_step
from shared.environments.atlas.tokenizer import THINK, THINK_END, call_start
from shared.environments.atlas.world import World
from shared.environments.base import ToolResult
from shared.policy.warmup.conversation import Turn
from shared.policy.warmup.faults import Fault

NO_ANSWER = ToolResult("error", "")
"""What a delegation comes to whose executor broke the format."""
OF_TOOLS = ("timeout", "error", "unknown-tool", "bad-arguments", "wrong-title")
OF_DELEGATIONS = ("error", "unknown-tool", "bad-arguments")
CALLS_A_HOP = 2


class Faults:
    """Draws a fault for an episode about what is asked. `told`: whether the models have the words of all faults.

    Else only those are drawn that a model can write which never saw them: no strange tool, no strange argument.
    """

    def __init__(self, world: World, tools: Toolbox, delegate: Toolbox, told: bool) -> None:
        self._tools = tools
        self._delegate = delegate
        self._told = told
        self._no_titles = [name for name in world.names if name not in world.entities]

    def executor(self, rng: Random, asked: str) -> Fault:
        """At the search or at the opening of an article."""
        return self._of_tools(rng, asked, "", CALLS_A_HOP)

    def single(self, rng: Random, asked: str) -> Fault | None:
        """A mistake at the first hop, or an outage at any; a single model says its step before it searches."""
        hops, step = first_step(asked)
        return self._of_tools(rng, step, f"{THINK}{step}{THINK_END}", hops * CALLS_A_HOP) if hops else None

    def planner(self, rng: Random, asked: str) -> Fault | None:
        """A mistake at the first delegation, or a failure of any."""
        hops, step = first_step(asked)
        if not hops:
            return None
        match rng.choice(OF_DELEGATIONS) if self._told else "error":
            case "unknown-tool":
                return self._refused("unknown-tool", 0, self._delegate, Call("search", {"query": _name(step)}))
            case "bad-arguments":
                return self._refused("bad-arguments", 0, self._delegate, Call("delegate", {"query": step}))
        return Fault("error", rng.randrange(hops), outage=lambda name: NO_ANSWER)

    def words(self) -> tuple[str, ...]:
        """The pieces of a vocabulary that writes and reads all of it."""
        refused = (
            (self._tools, Call("delegate", {"task": ""})),
            (self._tools, Call("search", {"title": ""})),
            (self._tools, Call("open", {"query": ""})),
            (self._delegate, Call("search", {"query": ""})),
            (self._delegate, Call("delegate", {"query": ""})),
        )
        calls = [call_start(call.name, argument) for _, call in refused for argument in call.arguments]
        results = [_refusal(toolbox, call) for toolbox, call in refused]
        results += [of(tool) for of in (timed_out, failed) for tool in ("search", "open")]
        return (*calls, *(result.content for result in results))

    def _of_tools(self, rng: Random, step: str, thought: str, calls: int) -> Fault:
        match rng.choice(OF_TOOLS) if self._told else rng.choice(("timeout", "error", "wrong-title")):
            case "timeout":
                return Fault("timeout", rng.randrange(calls), outage=timed_out)
            case "error":
                return Fault("error", rng.randrange(calls), outage=failed)
            case "unknown-tool":
                return self._refused("unknown-tool", 0, self._tools, Call("delegate", {"task": step}), thought)
            case "bad-arguments" if rng.random() < 0.5:
                return self._refused("bad-arguments", 0, self._tools, Call("search", {"title": _name(step)}), thought)
            case "bad-arguments":
                return self._refused("bad-arguments", 1, self._tools, Call("open", {"query": _name(step)}))
        missing = render_call(Call("open", {"title": rng.choice(self._no_titles)}))
        return Fault("wrong-title", 1, mistake=Turn(missing, (ToolResult("error", NOTHING),)))

    def _refused(self, kind: str, place: int, toolbox: Toolbox, call: Call, thought: str = "") -> Fault:
        return Fault(kind, place, mistake=Turn(thought + render_call(call), (_refusal(toolbox, call),)))


def _refusal(toolbox: Toolbox, call: Call) -> ToolResult:
    refusal = toolbox.refusal(call.name, call.arguments)
    assert refusal is not None, call
    return refusal


def _name(step: str) -> str:
    return step.partition(" of ")[2]
