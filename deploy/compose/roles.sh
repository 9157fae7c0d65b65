#!/bin/bash
# Runs once, when the database is made: creates the roles of the services, each
# with a password of its own. "holdfast migrate" would create them without one,
# and leaves those that it finds as they are.
set -eu
secrets=${SECRETS_DIR:-/run/secrets}
for service in trigger runner tools approvals console; do
  psql -v ON_ERROR_STOP=1 -v role="holdfast_$service" -v password="$(cat "$secrets/$service-password")" --no-psqlrc -q \
    -U "$POSTGRES_USER" -d "$POSTGRES_DB" <<'SQL'
CREATE ROLE :"role" LOGIN PASSWORD :'password';
SQL
done
