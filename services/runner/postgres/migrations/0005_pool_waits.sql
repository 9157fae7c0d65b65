-- +goose Up
-- Runs whose next model call found no room in a shared budget: each pool's
-- queue, by place. A row is there from the refused booking to the booking, or
-- until the run owes no call any more.
CREATE TABLE runner.pool_waits (
    run_id       text PRIMARY KEY,
    place        bigint GENERATED ALWAYS AS IDENTITY,
    namespace    text NOT NULL,
    pool         text NOT NULL,
    window_start text NOT NULL,
    amount       bigint NOT NULL,
    seq          bigint NOT NULL, -- of the run
    epoch        bigint NOT NULL, -- of its claim
    tried_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    woken_at     timestamptz,
    wakes        int NOT NULL DEFAULT 0
);
CREATE INDEX pool_waits_queue ON runner.pool_waits (namespace, pool, window_start, place);
GRANT SELECT, INSERT, UPDATE, DELETE ON runner.pool_waits TO holdfast_runner;

-- +goose Down
DROP TABLE runner.pool_waits;
