"""What the planner's and the executor's server have in common: process, lifespan, membership in a run, submission."""
