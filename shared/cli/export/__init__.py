"""`tandem export`: what a run leaves, in forms that others read.

command.py       the command
source.py        which checkpoint, which stores a folder means
checkpoint.py    a checkpoint as a plain Hugging Face folder
card.py          its model card
trajectories.py  trajectories as lines of JSON
fates.py         rewards and fates of trajectories, from the sync service
"""

from shared.cli.export.command import add_to as add_to
