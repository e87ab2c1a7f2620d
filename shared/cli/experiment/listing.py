"""`--plan`: the jobs, where they stand, and how long what is left may take."""

from shared.cli.experiment.experiment import Experiment
from shared.cli.experiment.plan import remaining_s
from shared.cli.terminal import console, print_json, span, table


def show_plan(experiment: Experiment, as_json: bool) -> None:
    """A row for each job, and the estimate: as the done ones took, else a guess for two cores."""
    jobs, left_s = experiment.jobs, remaining_s(experiment.jobs)
    if as_json:
        told = [{"job": job.name, "arm": job.arm, "seed": job.seed, "state": job.state} for job in jobs]
        return print_json({"jobs": told, "remaining_seconds": round(left_s)})
    about = {name: arm.about for name, arm in experiment.definition.arms.items()}
    console().print(table(("job", "state", "arm"), ((job.name, job.state, about[job.arm]) for job in jobs)))
    done = sum(job.state == "done" for job in jobs)
    console().print(f"{len(jobs)} jobs, {done} done; about {span(left_s)} left")
