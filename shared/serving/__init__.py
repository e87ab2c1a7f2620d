"""What the planner's and executor's server have in common: command line, policy, membership in a run, submission."""
