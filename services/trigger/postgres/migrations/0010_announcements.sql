-- +goose Up

-- What the relay owes is a narrow table of its own, one row per delivery: each
-- announcement changes its row, and in the wide table that would copy the input
-- and write every index again.
CREATE TABLE trigger.announcements (
    run_id           text        PRIMARY KEY,
    announced_at     timestamptz,
    landed_at        timestamptz,
    -- infinity: held back until its webhook goes on.
    next_announce_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    announce_count   int         NOT NULL DEFAULT 0
);
INSERT INTO trigger.announcements (run_id, announced_at, landed_at, next_announce_at, announce_count)
    SELECT run_id, announced_at, landed_at, CASE WHEN held THEN 'infinity' ELSE next_announce_at END, announce_count
    FROM trigger.deliveries;
-- Landed rows leave it, so the sweep stays small.
CREATE INDEX announcements_due ON trigger.announcements (next_announce_at) WHERE landed_at IS NULL;
GRANT SELECT, INSERT, UPDATE, DELETE ON trigger.announcements TO holdfast_trigger;

CREATE OR REPLACE VIEW trigger.v_deliveries AS
    SELECT d.delivery_id::text AS delivery_id, d.namespace, d.source_kind, d.source_name, d.dedupe_key, d.run_id, d.ref_kind, d.ref_name,
           d.ref_digest, d.input, d.labels, d.principal, d.accepted_at, a.announced_at, a.landed_at
    FROM trigger.deliveries d
    JOIN trigger.announcements a ON a.run_id = d.run_id;

DROP INDEX trigger.deliveries_announce;
ALTER TABLE trigger.deliveries DROP COLUMN announced_at, DROP COLUMN landed_at, DROP COLUMN next_announce_at, DROP COLUMN announce_count;

-- Lists read within a namespace, so one index serves the id and the list.
DROP INDEX trigger.deliveries_list;
ALTER TABLE trigger.deliveries DROP CONSTRAINT deliveries_pkey, ADD PRIMARY KEY (namespace, delivery_id);
DROP INDEX trigger.attempts_list;
ALTER TABLE trigger.attempts DROP CONSTRAINT attempts_pkey, ADD PRIMARY KEY (namespace, attempt_id);
-- Requests are stored in the order in which they come: a summary per block is enough to find the old ones.
DROP INDEX trigger.attempts_age;
CREATE INDEX attempts_age ON trigger.attempts USING brin (received_at) WITH (pages_per_range = 32, autosummarize = on);

-- +goose StatementBegin
CREATE FUNCTION trigger.forget_announcements() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM trigger.announcements a USING gone WHERE a.run_id = gone.run_id;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER forget_announcements AFTER DELETE ON trigger.deliveries REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION trigger.forget_announcements();

-- +goose Down
DROP TRIGGER forget_announcements ON trigger.deliveries;
DROP FUNCTION trigger.forget_announcements;
DROP INDEX trigger.attempts_age;
CREATE INDEX attempts_age ON trigger.attempts (received_at);
ALTER TABLE trigger.attempts DROP CONSTRAINT attempts_pkey, ADD PRIMARY KEY (attempt_id);
CREATE INDEX attempts_list ON trigger.attempts (namespace, attempt_id DESC);
ALTER TABLE trigger.deliveries DROP CONSTRAINT deliveries_pkey, ADD PRIMARY KEY (delivery_id),
    ADD COLUMN announced_at timestamptz, ADD COLUMN landed_at timestamptz,
    ADD COLUMN next_announce_at timestamptz NOT NULL DEFAULT clock_timestamp(), ADD COLUMN announce_count int NOT NULL DEFAULT 0;
UPDATE trigger.deliveries d
    SET announced_at = a.announced_at, landed_at = a.landed_at, next_announce_at = least(a.next_announce_at, clock_timestamp()), announce_count = a.announce_count
    FROM trigger.announcements a WHERE a.run_id = d.run_id;
CREATE INDEX deliveries_announce ON trigger.deliveries (next_announce_at) WHERE landed_at IS NULL;
CREATE INDEX deliveries_list ON trigger.deliveries (namespace, delivery_id DESC);
CREATE OR REPLACE VIEW trigger.v_deliveries AS
    SELECT delivery_id::text AS delivery_id, namespace, source_kind, source_name, dedupe_key, run_id, ref_kind, ref_name,
           ref_digest, input, labels, principal, accepted_at, announced_at, landed_at
    FROM trigger.deliveries;
DROP TABLE trigger.announcements;
