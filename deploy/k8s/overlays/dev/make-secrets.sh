#!/bin/sh
# Makes the secrets that kustomization.yaml reads, in ./secrets beside it. What is
# there already stays as it is, so it may run again.
set -eu
cd "$(dirname "$0")"
umask 077
mkdir -p secrets

random() { od -An -v -tx1 -N24 /dev/urandom | tr -d ' \n'; }

# make NAME TEXT
make() {
  [ -e "secrets/$1" ] || printf '%s' "$2" >"secrets/$1"
}

make admin-token "hf_$(random)"
make owner-password "$(random)"
make services-password "$(random)"
make owner-url "postgres://holdfast:$(cat secrets/owner-password)@postgres:5432/holdfast?sslmode=disable"
make services-url "postgres://holdfast:$(cat secrets/services-password)@postgres:5432/holdfast?sslmode=disable"

# The passwords of NATS' users: one file each, and all of them for the server.
for service in trigger runner tools approvals console; do
  make "nats-$service" "nats_$(random)"
  printf '%s_password: "%s"\n' "$service" "$(cat "secrets/nats-$service")"
done >secrets/nats-passwords.conf
