-- +goose Up

-- What became of every fire: a run, a place in the queue behind another run, or
-- nothing, with the reason.
ALTER TABLE trigger.fires
    ADD COLUMN id        bigint GENERATED ALWAYS AS IDENTITY,
    -- Tells fires of one nominal time apart: empty for the clock's, "now/..." for
    -- one that somebody asked for, "force-..." for a repeat that was insisted on.
    ADD COLUMN suffix    text NOT NULL DEFAULT '' CHECK (length(suffix) <= 400),
    ADD COLUMN origin    text NOT NULL DEFAULT 'clock' CHECK (origin IN ('clock', 'now', 'backfill')),
    ADD COLUMN state     text NOT NULL DEFAULT 'started' CHECK (state IN ('started', 'buffered', 'skipped', 'rejected')),
    -- Why it was skipped or rejected: a stable code, and words.
    ADD COLUMN reason    text NOT NULL DEFAULT '',
    ADD COLUMN detail    text NOT NULL DEFAULT '',
    -- How many fires a skipped row stands for; its nominal time is the last of them.
    ADD COLUMN skips     bigint NOT NULL DEFAULT 0,
    ADD COLUMN principal text NOT NULL DEFAULT '',
    -- When its run was seen to have ended.
    ADD COLUMN ended_at  timestamptz;

UPDATE trigger.fires SET state = 'rejected' WHERE run_id IS NULL;

ALTER TABLE trigger.fires
    DROP CONSTRAINT fires_pkey,
    DROP CONSTRAINT fires_nominal_check,
    -- "2026-03-08T02:00" of a cron expression, "2026-03-08T02:00:00Z" of an interval.
    ADD CONSTRAINT fires_nominal_check CHECK (length(nominal) IN (16, 20)),
    ADD PRIMARY KEY (namespace, schedule, nominal, fold, suffix),
    ADD CONSTRAINT fires_run_check CHECK (state NOT IN ('started', 'buffered') OR run_id IS NOT NULL);

-- One Idempotency-Key starts one run, whatever minute it comes back in.
CREATE UNIQUE INDEX fires_now ON trigger.fires (namespace, schedule, suffix) WHERE origin = 'now' AND state <> 'skipped';
-- Runs that have not ended, and fires that wait for them: what overlap is decided by.
CREATE INDEX fires_open ON trigger.fires (namespace, schedule, id) WHERE state = 'started' AND ended_at IS NULL;
CREATE INDEX fires_buffered ON trigger.fires (namespace, schedule, id) WHERE state = 'buffered';
-- The history of a schedule, newest first.
CREATE INDEX fires_history ON trigger.fires (namespace, schedule, id DESC);

ALTER TABLE trigger.schedules
    -- Runs that the clock started, against the definition's maxFires.
    ADD COLUMN fired    bigint NOT NULL DEFAULT 0,
    -- Fires that the overlap policy let pass.
    ADD COLUMN skipped  bigint NOT NULL DEFAULT 0,
    -- An operator's pause, beside the definition's own.
    ADD COLUMN pause_at   timestamptz,
    ADD COLUMN pause_by   text NOT NULL DEFAULT '',
    ADD COLUMN pause_note text NOT NULL DEFAULT '' CHECK (length(pause_note) <= 1000),
    ADD CONSTRAINT schedules_pause_check CHECK (pause_at IS NULL OR next_at IS NULL);

-- Who paused and resumed, and what they said. Append-only.
CREATE TABLE trigger.pauses (
    id        bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    namespace text        NOT NULL,
    schedule  text        NOT NULL,
    paused    boolean     NOT NULL,
    principal text        NOT NULL,
    note      text        NOT NULL,
    at        timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX pauses_list ON trigger.pauses (namespace, schedule, id DESC);

-- Runs to cancel because their schedule's next one is to run instead. One row
-- per run: it is asked for once, and announced until the runner has it.
CREATE TABLE trigger.cancels (
    run_id           text        PRIMARY KEY,
    namespace        text        NOT NULL,
    schedule         text        NOT NULL,
    reason           text        NOT NULL,
    created_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    announced_at     timestamptz,
    landed_at        timestamptz,
    next_announce_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    announce_count   int         NOT NULL DEFAULT 0
);
CREATE INDEX cancels_announce ON trigger.cancels (next_announce_at) WHERE landed_at IS NULL;

GRANT SELECT, INSERT ON trigger.pauses TO holdfast_trigger;
GRANT SELECT, INSERT, UPDATE ON trigger.cancels TO holdfast_trigger;

-- +goose Down
DROP TABLE trigger.cancels, trigger.pauses;
