"""`tandem doctor`: is everything in place, and if not, what to do.

command.py   the command
finding.py   one finding: OK, WARN or FAIL
machine.py   this machine: Python, packages, disk
servers.py   the servers: do they answer, are they ready, do their clocks agree
access.py    keys: the files, and what the key opens
models.py    model folders: the self-test of the chat template
"""

from shared.cli.doctor.command import add_to as add_to
