"""Agents: the action protocol, chat rendering that only ever appends ids, tools, limits, and the loop over turns."""
