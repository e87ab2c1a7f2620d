#!/usr/bin/env bash
# restore.sh FILE: puts a dump of backup.sh into the database, which must be empty, in one transaction: all of it or nothing.
# Where the database is: $PGHOST, $PGUSER, $PGDATABASE, $PGPASSFILE. No sync service may run meanwhile.
set -euo pipefail
pg_restore --no-password --exit-on-error --single-transaction --no-owner --dbname="${PGDATABASE:?}" "$1"
