"""Every SQL statement of the service, by noun; a function is one statement, or a few that belong together.

The order of locks is run, stream, groups (by id), batches, deliveries. What collides all the same, Postgres breaks up
and `database.py` runs again.
"""

from sync_service.store import audit as audit
from sync_service.store import batches as batches
from sync_service.store import contents as contents
from sync_service.store import deliveries as deliveries
from sync_service.store import events as events
from sync_service.store import groups as groups
from sync_service.store import keys as keys
from sync_service.store import live as live
from sync_service.store import locks as locks
from sync_service.store import overview as overview
from sync_service.store import policies as policies
from sync_service.store import purge as purge
from sync_service.store import recent as recent
from sync_service.store import rollouts as rollouts
from sync_service.store import runs as runs
from sync_service.store import series as series
from sync_service.store import stalls as stalls
from sync_service.store import status as status
from sync_service.store import steps as steps
from sync_service.store import streams as streams
from sync_service.store import trajectories as trajectories
from sync_service.store import workers as workers
