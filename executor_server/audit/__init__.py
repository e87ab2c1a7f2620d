"""`tandem audit`: what a step made of a group, computed again from what the sync service recorded, and compared.

record.py    the record: a group's rollouts and trajectories, the acks of their steps
planner.py   the planner's rows again: rewards, staleness, advantages, fates
executor.py  the executor's rows again: the alignment, too
totals.py    the statistics of the whole step again
compare.py   where record and computation differ
command.py   the command

It computes with the same rewards, advantages and alignment as the trainers, and with none of their code around them.
"""
