-- +goose Up
-- What model calls used and cost, of one run, one model and one hour (UTC) in a row: the
-- commit of an answer adds to it, so it is as exact as the run's own sums. It is for
-- reports only and decides nothing. The rows of a run that is deleted stay: what was spent
-- was spent. Calls that were made before this table was there are not in it.
CREATE TABLE runner.spend (
    namespace                text NOT NULL,
    hour                     timestamptz NOT NULL,
    run_id                   text NOT NULL,
    root_run_id              text NOT NULL, -- itself, or the run that nothing started above it
    agent                    text NOT NULL,
    model                    text NOT NULL, -- name of its document
    calls                    bigint NOT NULL,
    input_tokens             bigint NOT NULL,
    cache_read_tokens        bigint NOT NULL, -- of the input
    cache_write_tokens       bigint NOT NULL, -- of the input
    output_tokens            bigint NOT NULL,
    cost_micro_usd           bigint NOT NULL,
    cost_estimated_micro_usd bigint NOT NULL, -- of the cost, what was counted of estimated usage
    PRIMARY KEY (run_id, model, hour)
) WITH (fillfactor = 80);
CREATE INDEX spend_hour ON runner.spend (namespace, hour);
GRANT SELECT, INSERT, UPDATE ON runner.spend TO holdfast_runner;

CREATE VIEW runner.v_spend AS
SELECT namespace, hour, run_id, root_run_id, agent, model, calls, input_tokens, cache_read_tokens, cache_write_tokens, output_tokens, cost_micro_usd, cost_estimated_micro_usd FROM runner.spend;
GRANT SELECT ON runner.v_spend TO holdfast_console;

-- +goose Down
DROP VIEW runner.v_spend;
DROP TABLE runner.spend;
