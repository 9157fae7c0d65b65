#!/bin/sh
# Makes the secrets that docker-compose.yml reads, in ./secrets beside it. What
# is there already stays as it is, so it may run again.
#
# The files are readable by all and the folder by you alone: Compose mounts the
# files with the rights that they have here, and the containers run as another
# user.
set -eu
cd "$(dirname "$0")/../.."
umask 022
mkdir -p secrets
chmod 700 secrets

random() { od -An -v -tx1 -N24 /dev/urandom | tr -d ' \n'; }

# make NAME TEXT
make() {
  if [ -e "secrets/$1" ]; then
    echo "secrets/$1 is there already"
    return
  fi
  printf '%s' "$2" >"secrets/$1"
  echo "secrets/$1 made"
}

make admin-token "hf_$(random)"
make grafana-password "$(random)"
make postgres-password "$(random)"
make migrate-database-url "postgres://holdfast:$(cat secrets/postgres-password)@postgres:5432/holdfast?sslmode=disable"
for service in trigger runner tools approvals console; do
  make "$service-password" "$(random)"
  make "$service-database-url" "postgres://holdfast_$service:$(cat "secrets/$service-password")@postgres:5432/holdfast?sslmode=disable"
done

# The passwords of NATS' users: one file each, and all of them for the server.
for service in trigger runner tools approvals console; do
  make "$service-nats-password" "nats_$(random)" >&2
  printf '%s_password: "%s"\n' "$service" "$(cat "secrets/$service-nats-password")"
done >secrets/nats-passwords.conf
