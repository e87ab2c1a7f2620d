"""How a rollout is shown: a tree, the planner's trajectory first, the executor's calls in it below."""

from collections.abc import Iterator, Mapping

from rich.text import Text
from rich.tree import Tree

from shared.cli.account import Account
from shared.cli.terminal import clean, one_line
from shared.cli.texts import parts
from shared.schemas.base import PolicyVersion
from shared.schemas.run import TERMS
from shared.schemas.views import RolloutView, TrajectoryRecord


def render(account: Account, texts: Mapping[str, dict]) -> Tree:
    """The tree; `texts` by trajectory, as they were fetched, are shown as nothing but text."""
    rollout, group = account.rollout, account.group
    place = f"run {rollout.run}, step {group.step}, group {group.group}, slot {rollout.slot}, task {group.task_id}"
    tree = Tree(Text(one_line(f"rollout {rollout.id}  {_state(rollout)}  {place}"), style="bold"))
    top = tree
    if rollout.planner_trajectory:
        top = tree.add(_line("planner", rollout.planner_trajectory, _planner(account)))
        _add_text(top, texts.get(rollout.planner_trajectory))
    for number, call in enumerate(account.calls, start=1):
        node = top.add(_line(f"executor call {number}", call.id, _executor(account, call)))
        _add_text(node, texts.get(call.id))
    for number, part in enumerate(parts(texts.get(rollout.planner_trajectory or "", {})), start=1):
        node = top.add(Text(one_line(f"delegation {number} {part}: of the same policy, trained with the planner's")))
        _add_text(node, texts.get(part))
    return tree


def _line(what: str, id: str, facts: Iterator[str]) -> Text:
    return Text(one_line(f"{what} {id}: {', '.join(facts)}"))


def _state(thing: RolloutView | TrajectoryRecord) -> str:
    return f"{thing.state} ({thing.reason})" if thing.reason else thing.state


def _planner(account: Account) -> Iterator[str]:
    rollout = account.rollout
    yield f"r_format {rollout.r_format}"
    yield f"r_correct {rollout.r_correct}"
    for term in TERMS:
        if (score := getattr(rollout, f"r_{term}")) is not None:
            yield f"r_{term} {score:.3f}"
    yield f"reward {_number(account.reward)}"
    yield f"{rollout.tokens} tokens by {_version(rollout.version)}"
    trained = rollout.multiplicity is not None
    yield f"trained x{rollout.multiplicity}" if trained else rollout.fate_reason or "not trained yet"


def _executor(account: Account, call: TrajectoryRecord) -> Iterator[str]:
    if call.tokens is not None:
        yield f"r_format {call.r_format}"
        yield f"r_expert {'none' if call.r_expert is None else call.r_expert}"
        yield f"reward {_number(account.reward_of(call))}"
        yield f"{call.tokens} tokens by {_version(call.version)}"
    yield f"trained x{call.multiplicity}" if call.multiplicity is not None else _state(call)


def _version(version: PolicyVersion | None) -> str:
    return "?" if version is None else f"version {version.epoch}.{version.step} ({version.updates} updates)"


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.3f}"


def _add_text(node: Tree, told: dict | None) -> None:
    if told is None:
        return
    if "problem" in told:
        node.add(Text(one_line(f"no text: {told['problem']}"), style="yellow"))
    for message in told.get("messages", ()):
        role, content = str(message.get("role", "?")), message.get("content", "")
        node.add(
            Text.assemble(
                (f"{one_line(role)}: ", "bold"), clean(content if isinstance(content, str) else repr(content))
            )
        )
