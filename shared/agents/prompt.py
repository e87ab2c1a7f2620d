"""The system message: what the environment says, then the action protocol and the tools, the same for both roles.

The tools stand in the text, so a chat template needs no notion of tool schemas.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

PROTOCOL = """\
Each of your turns is one action. You may think first, inside <think>...</think>. Then either call one or more tools:
<tool_call>{"name": "tool name", "arguments": {"argument name": "value"}}</tool_call>
or give your final answer, once:
<answer>your answer</answer>
Write nothing else. Calls of one turn run at the same time; each result comes back, in their order, as
<tool_response state="ok">the result</tool_response>
The state is ok, error, timeout or limit. Where a limit asks you to answer, your next turn must be the final answer.

Tools:"""


def system_text(instructions: str, tools: Sequence[Mapping[str, Any]]) -> str:
    """The system message; empty, so that none is rendered, where there are neither instructions nor tools."""
    parts = [instructions.strip()]
    if tools:
        parts.append("\n".join([PROTOCOL, *(json.dumps(tool, ensure_ascii=False) for tool in tools)]))
    return "\n\n".join(part for part in parts if part)
