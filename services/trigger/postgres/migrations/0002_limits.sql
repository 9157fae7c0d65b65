-- +goose Up

-- One row per webhook with a limit: its token bucket, refilled by the database's
-- clock. Whoever lets a start in holds the row, so replicas agree.
CREATE TABLE trigger.gates (
    namespace   text             NOT NULL,
    webhook     text             NOT NULL,
    tokens      double precision NOT NULL,
    refilled_at timestamptz      NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (namespace, webhook)
) WITH (fillfactor = 50);

-- One row per run in flight of a webhook with maxInFlight. It is taken before the
-- delivery is stored, and removed when a place is wanted and the run has ended.
CREATE TABLE trigger.places (
    run_id    text        PRIMARY KEY,
    namespace text        NOT NULL,
    webhook   text        NOT NULL,
    taken_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX places_of_webhook ON trigger.places (namespace, webhook);

GRANT SELECT, INSERT, UPDATE, DELETE ON trigger.gates, trigger.places TO holdfast_trigger;

-- +goose Down
DROP TABLE trigger.places, trigger.gates;
