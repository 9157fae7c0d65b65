-- +goose Up

CREATE SCHEMA trigger;
GRANT USAGE ON SCHEMA trigger TO holdfast_trigger, holdfast_console;

-- One row per accepted start. The row is the promise behind a 2xx: its unique
-- key admits one run per thing that happened, and the relay sees to it that the
-- runner gets it.
CREATE TABLE trigger.deliveries (
    delivery_id      uuid        PRIMARY KEY,
    namespace        text        NOT NULL,
    source_kind      text        NOT NULL CHECK (source_kind IN ('webhook', 'api', 'schedule', 'event')),
    -- Name of the webhook, schedule or hf.in subject; of the principal for the API.
    source_name      text        NOT NULL,
    -- What makes a repeat a repeat. NULL: the sender gave nothing, each request is its own.
    dedupe_key       text        CHECK (length(dedupe_key) BETWEEN 1 AND 1000),
    -- Of the request as it was sent, to tell a repeat from another request under the same key.
    request_digest   text        NOT NULL,
    run_id           text        NOT NULL UNIQUE,
    ref_kind         text        NOT NULL CHECK (ref_kind IN ('agent', 'flow')),
    ref_name         text        NOT NULL,
    -- The version that the name meant when the start was accepted.
    ref_digest       text        NOT NULL,
    -- json and not jsonb: it keeps digits, key order and repeated spaces as they came.
    input            json        NOT NULL,
    labels           jsonb       NOT NULL DEFAULT '{}',
    principal        text        NOT NULL DEFAULT '',
    traceparent      text        NOT NULL DEFAULT '',
    -- Accepted by a paused webhook: kept, and announced when the webhook goes on.
    held             boolean     NOT NULL DEFAULT false,
    accepted_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    announced_at     timestamptz,
    landed_at        timestamptz,
    next_announce_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    announce_count   int         NOT NULL DEFAULT 0,
    -- The key that admits one run. NULLs never conflict, which is what no key means.
    UNIQUE (namespace, source_kind, source_name, dedupe_key)
);
-- What the relay still owes. Landed rows leave it, so the sweep stays small.
CREATE INDEX deliveries_announce ON trigger.deliveries (next_announce_at) WHERE landed_at IS NULL;
-- What paused webhooks hold back.
CREATE INDEX deliveries_held ON trigger.deliveries (namespace, source_name) WHERE held;
-- Lists, newest first; delivery ids are ordered by time.
CREATE INDEX deliveries_list ON trigger.deliveries (namespace, delivery_id DESC);

-- When each schedule fires next. The definition is the catalog's; this is only
-- the clock hand, recomputed whenever the definition or the zone rules change.
CREATE TABLE trigger.schedules (
    namespace    text        NOT NULL,
    name         text        NOT NULL,
    digest       text        NOT NULL,
    paused       boolean     NOT NULL,
    -- NULL: paused, or no fire in the next twelve years.
    next_at      timestamptz,
    next_nominal text,
    next_fold    int,
    -- Fires that were older than the catch-up window, or not the newest of those missed.
    missed       bigint      NOT NULL DEFAULT 0,
    -- Counts changes, so that a sync that lost a race changes nothing.
    version      bigint      NOT NULL DEFAULT 1,
    updated_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (namespace, name),
    CHECK (NOT paused OR next_at IS NULL)
);
CREATE INDEX schedules_due ON trigger.schedules (next_at) WHERE next_at IS NOT NULL;

-- One row per fire. Its key is the wall time that was asked for, so neither a
-- second replica nor a changed zone rule fires it again.
CREATE TABLE trigger.fires (
    namespace   text        NOT NULL,
    schedule    text        NOT NULL,
    nominal     text        NOT NULL CHECK (length(nominal) = 16),
    fold        int         NOT NULL CHECK (fold IN (0, 1)),
    due_at      timestamptz NOT NULL,
    fired_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    digest      text        NOT NULL,
    -- Both NULL when the fire could start nothing; trigger.rejected says why. No
    -- foreign key: a fire outlives its delivery, so that it never fires again.
    run_id      text,
    delivery_id uuid,
    PRIMARY KEY (namespace, schedule, nominal, fold)
);

-- What can never start a run, with the reason: messages of hf.in and fires.
CREATE TABLE trigger.rejected (
    id          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    namespace   text        NOT NULL,
    source_kind text        NOT NULL CHECK (source_kind IN ('schedule', 'event')),
    source_name text        NOT NULL,
    message_id  text        NOT NULL,
    code        text        NOT NULL,
    detail      text        NOT NULL,
    -- As it came, which need not be JSON or text.
    data        bytea,
    rejected_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- A message that comes again after it was rejected is the same message.
    UNIQUE (namespace, source_kind, source_name, message_id)
);

GRANT SELECT, INSERT, UPDATE, DELETE ON trigger.deliveries, trigger.schedules, trigger.fires, trigger.rejected TO holdfast_trigger;

-- The read contract. The console answers "queued" from it before the runner has
-- the run.
CREATE VIEW trigger.v_deliveries AS
    SELECT delivery_id::text AS delivery_id, namespace, source_kind, source_name, dedupe_key, run_id, ref_kind, ref_name,
           ref_digest, input, labels, principal, accepted_at, announced_at, landed_at
    FROM trigger.deliveries;
GRANT SELECT ON trigger.v_deliveries TO holdfast_trigger, holdfast_console;

-- +goose Down
DROP SCHEMA trigger CASCADE;
