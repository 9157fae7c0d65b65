-- +goose Up
-- When the next call of a model with limits may begin: one row for each model.
CREATE TABLE runner.model_rates (
    namespace     text NOT NULL,
    model         text NOT NULL, -- name of its document
    last_at       timestamptz NOT NULL, -- the latest moment that is booked
    requests_free timestamptz NOT NULL,
    tokens_free   timestamptz NOT NULL,
    PRIMARY KEY (namespace, model)
);
-- A moment that is booked for a run and not used yet.
CREATE TABLE runner.model_turns (
    run_id    text PRIMARY KEY,
    namespace text NOT NULL,
    model     text NOT NULL,
    at        timestamptz NOT NULL
);
GRANT SELECT, INSERT, UPDATE, DELETE ON runner.model_rates, runner.model_turns TO holdfast_runner;

-- +goose Down
DROP TABLE runner.model_turns;
DROP TABLE runner.model_rates;
