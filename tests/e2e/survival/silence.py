"""An environment of which nothing is asked: what is trained on was recorded. It brings no torch into the server."""

from shared.environments.base import Environment, Split, Task, ToolContext, Trace, tool


class Silence(Environment):
    """Its tasks are never rolled out."""

    name = "silence"
    describe_tools = False

    def task(self, split: Split, seed: int, index: int) -> Task:
        return Task(f"{split}-{index}", "?", "!")

    @tool
    def listen(self, context: ToolContext) -> str:
        """Nothing."""
        return ""

    def correctness(self, task: Task, answer: str) -> float:
        return 0.0

    def expert_score(self, trace: Trace) -> float:
        return 0.0
