"""What a model is told first: all that it needs to know; or, where it knows the protocol, at most its role."""

from shared.environments.base import Team
from shared.schemas.base import Role

DELEGATING = """\
A question is a chain such as `currency of country of Paris`. Find the answer by delegating one step at a time, such as
`country of Paris`. The final answer is the name alone."""
SEARCHING = """\
Find what is asked, such as `country of Paris`, in the article of that title: search for it, open it, read it.
The final answer is the line of the article, such as `country: France`."""
ALONE = """\
A question is a chain such as `currency of country of Paris`. Find the answer one step at a time, such as
`country of Paris`: search for the name, open the article of that title, read it. The final answer is the name alone."""
TOLD: dict[Role, str] = {"planner": "You are the planner.", "executor": "You are the executor."}
"""How a model of both roles knows which it has: a question of one hop reads like a subtask."""


def instructions(team: Team, role: Role, described: bool) -> str:
    """`described`: for models that are told about their tools."""
    if described:
        return SEARCHING if role == "executor" else ALONE if team == "single" else DELEGATING
    return TOLD[role] if team == "unified" else ""
