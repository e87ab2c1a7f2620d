"""Results of jobs that never ran."""

from pathlib import Path

from shared.cli.experiment.result import Evaluations, JobResult
from shared.ids import new_id
from shared.schemas.invocation import CallTranscript, EvaluationRequest, EvaluationView, TaskTranscript

TASKS = 4


def evaluations(right: int, *, calls: int = 2, text: str = "Paris") -> Evaluations:
    """`right` of TASKS tasks are right, sampled; greedy all. One task's text is told, with `text` everywhere."""
    told = TaskTranscript(
        query=text,
        key=text,
        calls=(CallTranscript(name=text, arguments=text, state="ok", result=text),),
        answer=text,
        correct=1.0,
    )

    def view(count: int) -> EvaluationView:
        return EvaluationView(
            id=new_id(),
            request=EvaluationRequest(split="test", n=TASKS),
            state="done",
            done=TASKS,
            correct=(1.0,) * count + (0.0,) * (TASKS - count),
            calls=(calls,) * TASKS,
            calls_by_kind={"0 hops": calls / 2},
            transcripts=(told,),
        )

    return Evaluations(sampled=view(right), greedy=view(TASKS))


def result(arm: str, seed: int, after: int, *, before: int = 1, team: str = "pair", text: str = "Paris") -> JobResult:
    """A job of two steps; `after` and `before` are how many tasks are right."""
    of_role = {
        "reward_mean": {1: 0.1, 2: 0.3},
        "groups": {1: 4.0, 2: 4.0},
        "groups_dead": {1: 1.0, 2: 2.0},
        "calls_mean": {1: 1.0, 2: 3.0},
        "reward_variance_within": {1: 0.0, 2: 0.2},
        "reward_variance_between": {1: 0.1, 2: 0.1},
        "gap_mean": {1: 0.01},  # the second step was skipped
        "trained_tokens": {1: 50.0},
    }
    return JobResult(
        arm=arm,
        seed=seed,
        team=team,
        commit="abc",
        machine="2 cores",
        steps=2,
        before=evaluations(before, text=text),
        after=evaluations(after, calls=1, text=text),
        validation={0: 0.25, 2: after / TASKS},
        curves={"planner": of_role, "executor": of_role} if team == "pair" else {"planner": of_role},
        tokens={"planner": 100, "executor": 200} if team == "pair" else {"planner": 100},
        seconds={"job": 60.0},
    )


def leave(folder: Path, *results: JobResult) -> None:
    """Write them where the jobs of an experiment in `folder` leave theirs."""
    for one in results:
        job = folder / "jobs" / f"{one.arm}-{one.seed}"
        job.mkdir(parents=True)
        one.write(job)
