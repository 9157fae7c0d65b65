-- +goose Up
-- Runs that stand still because a shared budget was used up, with what their next
-- call needs: they go on by themselves once that is free. A row is there exactly
-- while runs.paused_for names the pool; runs that older releases paused get
-- theirs when they are woken first.
CREATE TABLE runner.pool_pauses (
    run_id       text PRIMARY KEY,
    namespace    text NOT NULL,
    pool         text NOT NULL,
    window_start text NOT NULL, -- that refused
    amount       bigint NOT NULL,
    unit         text NOT NULL, -- of the amount
    seq          bigint NOT NULL, -- of the run, when it paused
    woken_at     timestamptz,
    wakes        int NOT NULL DEFAULT 0
);
GRANT SELECT, INSERT, UPDATE, DELETE ON runner.pool_pauses TO holdfast_runner;

-- +goose Down
DROP TABLE runner.pool_pauses;
