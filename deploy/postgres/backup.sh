#!/usr/bin/env bash
# backup.sh [EVERY_S]: dumps the database to $BACKUP_FOLDER, and again every EVERY_S seconds; without it, once.
# A dump is whole or not there. Those older than $BACKUP_KEEP_DAYS are removed. Where the database is: $PGHOST, $PGUSER,
# $PGDATABASE, $PGPASSFILE.
set -euo pipefail
folder=${BACKUP_FOLDER:-/backups}
every=${1:-}
while true; do
  part="$folder/.part"
  pg_dump --no-password --format=custom --file="$part"
  sync "$part"
  mv "$part" "$folder/tandem-$(date -u +%Y%m%dT%H%M%SZ).dump"
  find "$folder" -name 'tandem-*.dump' -mtime "+${BACKUP_KEEP_DAYS:-14}" -delete
  [ -n "$every" ] || exit 0
  sleep "$every"
done
