#!/bin/bash
# Runs once, when the database is made: creates the roles of the services with
# a password. "holdfast migrate" would create them without one, and leaves
# those that it finds as they are.
set -eu
password=$(cat "${SERVICES_PASSWORD_FILE:-/run/secrets/services-password}")
psql -v ON_ERROR_STOP=1 -v password="$password" --no-psqlrc -q \
  -U "$POSTGRES_USER" -d "$POSTGRES_DB" <<'SQL'
CREATE ROLE holdfast_trigger   LOGIN PASSWORD :'password';
CREATE ROLE holdfast_runner    LOGIN PASSWORD :'password';
CREATE ROLE holdfast_tools     LOGIN PASSWORD :'password';
CREATE ROLE holdfast_approvals LOGIN PASSWORD :'password';
CREATE ROLE holdfast_console   LOGIN PASSWORD :'password';
SQL
