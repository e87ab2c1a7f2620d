#!/usr/bin/env bash
# secrets.sh FOLDER: makes what the hosts share as secrets: FOLDER/control, FOLDER/planner and FOLDER/executor, one for each
# host to have, FOLDER/operator for whoever operates, and FOLDER/ca, which stays where it is. What is there already is left
# as it is. Addresses and names come from the environment: TANDEM_NAME (of the control host, for browsers), TANDEM_SYNC_AT,
# TANDEM_PLANNER_AT, TANDEM_EXECUTOR_AT (host:port, as other hosts reach them). TANDEM_CLI: the command `tandem`.
set -euo pipefail
umask 077
folder=$1
tandem=${TANDEM_CLI:-tandem}
name=${TANDEM_NAME:-localhost}
command -v "$tandem" >/dev/null || { echo "secrets: there is no command $tandem; set TANDEM_CLI" >&2; exit 2; }

# make FILE COMMAND...: the output of COMMAND, in a new file
make() {
  local file="$folder/$1"
  shift
  [ -e "$file" ] && return
  "$@" >"$file.part"
  mv "$file.part" "$file"
  echo "$file"
}

# follow FILE: planner and executor have what the control host has, also where that has changed since; written in place, as
# a file that a container has mounted is seen anew only then
follow() {
  for host in planner executor; do
    cmp -s "$folder/control/$1" "$folder/$host/$1" && continue
    cat "$folder/control/$1" >"$folder/$host/$1"
    echo "$folder/$host/$1"
  done
}

share() { for host in planner executor; do make "$host/$2" cat "$folder/$1"; done; }

key() { # key ROLE FILE: a key of that role; its hash is added to the file that all servers read
  [ -e "$folder/$2" ] && return
  rm -f "$folder/$2.part"
  "$tandem" keys create --role "$1" --out "$folder/$2.part" --hashes "$folder/control/keys" >/dev/null
  mv "$folder/$2.part" "$folder/$2"
  echo "$folder/$2"
}

certificate() { # certificate HOST NAMES: what `sync`, `planner` or `executor` shows to the others, and to browsers
  [ -e "$folder/$1/host.crt" ] && return
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -keyout "$folder/$1/host.key" -subj "/CN=$1" \
    -out "$folder/$1/host.csr" 2>/dev/null
  openssl x509 -req -in "$folder/$1/host.csr" -CA "$folder/ca/ca.crt" -CAkey "$folder/ca/ca.key" -days 825 -sha256 \
    -out "$folder/$1/host.crt" -extfile <(printf '%s\n' "subjectAltName=$2" "basicConstraints=critical,CA:FALSE" \
    "keyUsage=critical,digitalSignature" "extendedKeyUsage=serverAuth,clientAuth") 2>/dev/null
  rm "$folder/$1/host.csr"
  echo "$folder/$1/host.crt"
}

authority() {
  [ -e "$folder/ca/ca.crt" ] && return
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -days 3650 -sha256 -subj "/CN=Tandem hosts" \
    -addext "basicConstraints=critical,CA:TRUE" -addext "keyUsage=critical,keyCertSign" \
    -keyout "$folder/ca/ca.key" -out "$folder/ca/ca.crt" 2>/dev/null
  echo "$folder/ca/ca.crt"
}

in_redis_users() { sed "s/PASSWORD_SHA256/$(printf %s "$(cat "$folder/control/redis_password")" | sha256sum | cut -d' ' -f1)/" \
  "$(dirname "$0")/redis/users.acl"; }

# compose.env holds no secret: who runs the containers, and where the hosts are
owner=$(id -u) group=$(id -g)
[ "$owner" -ne 0 ] || owner=10001 group=10001
settings() {
  printf '%s\n' "TANDEM_UID=$owner" "TANDEM_GID=$group" "TANDEM_ROLE=$1" "TANDEM_PEER=$2" "TANDEM_SERVER_PORT=$3" \
    "TANDEM_SYNC_AT=${TANDEM_SYNC_AT:-sync.invalid:8443}" "TANDEM_PLANNER_AT=${TANDEM_PLANNER_AT:-planner.invalid:8443}" \
    "TANDEM_EXECUTOR_AT=${TANDEM_EXECUTOR_AT:-executor.invalid:8443}"
}

mkdir -p "$folder"/{control,planner,executor,operator,ca}
random() { openssl rand -hex 32; }
make control/postgres_password random
make control/pgpass printf 'postgres:5432:*:tandem:%s\n' "$(cat "$folder/control/postgres_password")"
make control/redis_password random
make control/redis_url printf 'redis://tandem:%s@redis:6379/0\n' "$(cat "$folder/control/redis_password")"
make control/redis_users in_redis_users
make control/grafana_password random
for role in planner executor; do
  key "$role" "$role/key"
  make "$role/vllm_key" random
  make "$role/ray_token" random
done
key viewer control/viewer.key
key metrics control/metrics.key
key operator operator/operator.key
follow keys
authority
certificate control "DNS:sync,DNS:localhost,$([[ $name =~ ^[0-9.]+$ ]] && echo "IP:$name" || echo "DNS:$name")"
certificate planner DNS:planner
certificate executor DNS:executor
make control/ca.crt cat "$folder/ca/ca.crt"
make operator/ca.crt cat "$folder/ca/ca.crt"
share ca/ca.crt ca.crt
for at in TANDEM_SYNC_AT TANDEM_PLANNER_AT TANDEM_EXECUTOR_AT; do
  [ -e "$folder/control/compose.env" ] || [ -n "${!at:-}" ] ||
    echo "secrets: $at is not set, so the hosts will not find one another; set it, remove */compose.env, do this again" >&2
done
make control/compose.env settings control none 8700
make planner/compose.env settings planner executor 8701
make executor/compose.env settings executor planner 8702
[ "$(id -u)" -ne 0 ] || chown -R "$owner:$group" "$folder"/{control,planner,executor}
