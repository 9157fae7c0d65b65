#!/bin/sh
# A loop in shell and curl that may be killed at any moment.
#
#   loop.sh JOB
#
# It posts three prices, each at most once, and saves after each. The same JOB
# is the same run: start it again after a crash and it goes on where it stopped.
#
#   SHOP_URL   where prices are posted to
#   ON_DOUBT   ask (the default), or retry when the shop honours Idempotency-Key
#   LEASE      seconds that one action may take (30)
set -eu

server=${HOLDFAST_SERVER:-http://127.0.0.1:8787}
shop=${SHOP_URL:-http://127.0.0.1:8080}
job=${1:?"usage: loop.sh JOB"}
case $job in *[!A-Za-z0-9_-]*) echo "JOB: use A-Z a-z 0-9 _ -" >&2; exit 2 ;; esac

answer=$(mktemp)
trap 'rm -f "$answer"' EXIT

# call METHOD PATH BODY [HEADER...]: the answer is in $answer, its status in $code.
# Every request here is safe to repeat, so one without an answer is repeated.
call() {
  method=$1 path=$2 body=$3
  shift 3
  set -- -H 'Content-Type: application/json' "$@"
  if [ -n "${HOLDFAST_TOKEN:-}" ]; then set -- -H "Authorization: Bearer $HOLDFAST_TOKEN" "$@"; fi
  if [ -n "$body" ]; then set -- --data-binary "$body" "$@"; fi
  tries=0
  while :; do
    code=$(curl -sS --max-time 30 -o "$answer" -w '%{http_code}' -X "$method" "$@" "$server$path") || code=000
    case $code in
      2*) return 0 ;;
      000 | 429 | 502 | 503 | 504)
        tries=$((tries + 1))
        if [ $tries -gt 30 ]; then echo "no answer from $server" >&2; exit 1; fi
        sleep 1 ;;
      412) echo "another process runs $job: $(cat "$answer")" >&2; exit 4 ;;
      409) echo "$method $path: $(cat "$answer")" >&2; grep -q '"run_ended"' "$answer" && exit 4; exit 1 ;;
      *) echo "$method $path: $code $(cat "$answer")" >&2; exit 1 ;;
    esac
  done
}

# member NAME: a text or number of the answer. The last one of the name wins;
# use jq where answers hold more than these.
member() { sed -n 's/.*"'"$1"'":"\{0,1\}\([^",}]*\).*/\1/p' "$answer"; }

# A name for one attempt: after a kill the program is another one.
fresh() { od -An -N12 -tx1 /dev/urandom | tr -d ' \n'; }

# once KEY PRODUCT CENTS: post a price at most once; the shop's id is in $id.
once() {
  key=$1 args="{\"product\":\"$2\",\"cents\":$3}"
  begin="{\"key\":\"$key\",\"tool\":\"post_price\",\"args\":$args,\"run_id\":\"$run\",\"holder\":\"$(fresh)\",\"lease_seconds\":${LEASE:-30},\"on_doubt\":\"${ON_DOUBT:-ask}\"}"
  while :; do
    call POST /v1/effects "$begin"
    case $(member status) in
      proceed) break ;;
      done) id=$(member id); return 0 ;;
      unknown) cat "$answer" >&2; exit 3 ;; # start it again when somebody has said what happened
      *) sleep 1 ;;                         # busy, held
    esac
  done
  effect=$(member effect_id) fence=$(member fence)
  # Whatever goes wrong here leaves the outcome unknown: no record is sent.
  posted=$(curl -sSf --max-time 20 -H 'Content-Type: application/json' -H "Idempotency-Key: $key" --data-binary "$args" "$shop/prices")
  call PUT "/v1/effects/$effect" "{\"fence\":$fence,\"status\":\"succeeded\",\"result\":$posted}"
  id=$(printf '%s' "$posted" | sed -n 's/.*"id":"\([^"]*\)".*/\1/p')
}

save() {
  call PUT "/v1/runs/$run/checkpoint" "{\"state\":{\"step\":$1,\"posted\":\"$2\"}}" -H "If-Match: \"$version\"" -H "Idempotency-Key: $(fresh)"
  version=$(member version)
}

call POST /v1/runs "{\"name\":\"price-loop\",\"input\":{\"job\":\"$job\"}}" -H "Idempotency-Key: price-loop/$job"
run=$(member run_id)
call GET "/v1/runs/$run/checkpoint" ''
status=$(member status) version=$(member version) step=$(member step) posted_ids=$(member posted)
if [ "$status" != running ]; then
  echo "run $run is $status"
  exit 0
fi
step=${step:-0}

set -- lamp chair desk
shift "$step"
for product; do
  once "$run/$step/post_price" "$product" $((1990 + step))
  step=$((step + 1))
  posted_ids="$posted_ids${posted_ids:+ }$id"
  save "$step" "$posted_ids"
done
call POST "/v1/runs/$run/complete" "{\"status\":\"completed\",\"output\":\"posted $posted_ids\"}"
echo "run $run: posted $posted_ids"
