"""What a rollout earns for the optional terms of the planner's reward: this server alone knows what it did."""

from planner_server.rollout import Rollout
from shared.agents.toolbox import Toolbox
from shared.mgrpo.terms import Used, diversity_score, efficiency_score, protocol_score
from shared.schemas.run import PlannerReward, Term


def term_scores(rollout: Rollout, reward: PlannerReward, toolbox: Toolbox) -> dict[Term, float]:
    """The score of each term that is on; `toolbox` is the planner's own.

    A delegation that failed may be made again: only answered ones count as repeated. A model that has the tools itself
    delegates nothing, and repeats nothing.
    """
    calls, scores = rollout.episode.calls, dict[Term, float]()
    if reward.protocol:
        refused = sum(toolbox.refusal(call.name, call.arguments) is not None for call in calls)
        scores["protocol"] = protocol_score(len(calls), refused)
    if reward.efficiency:
        assert reward.budget is not None
        tokens = sum(sum(episode.mask) for episode in rollout.episodes)
        scores["efficiency"] = efficiency_score(Used(len(calls), tokens, rollout.seconds), reward.budget)
    if reward.diversity:
        answered = [d.request.subtask for d in rollout.delegations if d.answer.status == "ok"]
        scores["diversity"] = diversity_score(answered)
    return scores
