-- +goose Up
-- What a run's answers cost by the prices of their models, in micro-dollars, and
-- the part of it whose usage was estimated.
ALTER TABLE runner.runs
    ADD COLUMN cost_micro_usd bigint NOT NULL DEFAULT 0,
    ADD COLUMN cost_estimated_micro_usd bigint NOT NULL DEFAULT 0;

CREATE OR REPLACE VIEW runner.v_runs AS
SELECT run_id, namespace, kind, name, digest, status, seq, waiting, input, output, error, labels, trigger, principal,
       parent_run_id, parent_item, model_calls, tool_calls, tokens, claim_worker, claim_epoch, claim_at, attempts,
       accepted_at, created_at, updated_at, ended_at, cost_micro_usd, cost_estimated_micro_usd
FROM runner.runs;

-- +goose Down
DROP VIEW runner.v_runs;
CREATE VIEW runner.v_runs AS
SELECT run_id, namespace, kind, name, digest, status, seq, waiting, input, output, error, labels, trigger, principal,
       parent_run_id, parent_item, model_calls, tool_calls, tokens, claim_worker, claim_epoch, claim_at, attempts,
       accepted_at, created_at, updated_at, ended_at
FROM runner.runs;
GRANT SELECT ON runner.v_runs TO holdfast_console, holdfast_approvals, holdfast_tools;
ALTER TABLE runner.runs DROP COLUMN cost_estimated_micro_usd, DROP COLUMN cost_micro_usd;
