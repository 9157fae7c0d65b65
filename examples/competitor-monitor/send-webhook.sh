#!/bin/sh
# Posts one signed delivery to the webhook new-competitor, as the Standard
# Webhooks specification says: HMAC-SHA256 over "<id>.<timestamp>.<body>".
# Posting the same id again starts no second run.
#
#   HOLDFAST_WEBHOOK_SECRET  whsec_<base64>, the secret that the trigger service has
#   HOLDFAST_SERVER             where Holdfast listens, default http://127.0.0.1:8787
#   $1                       id of the delivery, default a new one
set -eu
: "${HOLDFAST_WEBHOOK_SECRET:?set it to the secret of the webhook, whsec_<base64>}"
url=${HOLDFAST_SERVER:-http://127.0.0.1:8787}
id=${1:-msg_$(date +%s)_$$}
body=$(cat "$(dirname "$0")/new-competitor.json")
timestamp=$(date +%s)
key=$(printf %s "${HOLDFAST_WEBHOOK_SECRET#whsec_}" | base64 -d | od -An -v -tx1 | tr -d ' \n')
signature=$(printf '%s.%s.%s' "$id" "$timestamp" "$body" |
	openssl dgst -sha256 -mac HMAC -macopt "hexkey:$key" -binary | base64 | tr -d '\n')
printf %s "$body" | curl -sS --fail-with-body -X POST "$url/hooks/new-competitor" \
	-H 'Content-Type: application/json' \
	-H "webhook-id: $id" \
	-H "webhook-timestamp: $timestamp" \
	-H "webhook-signature: v1,$signature" \
	--data-binary @-
echo
