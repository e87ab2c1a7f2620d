"""The wire between the services: everything that the sync service accepts and answers."""

from shared.schemas.base import ROLES as ROLES
from shared.schemas.base import PolicyVersion as PolicyVersion
from shared.schemas.base import Role as Role
