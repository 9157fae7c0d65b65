-- +goose Up
-- What the runner asks of a call beside its tool's policy: 'recall' (answered from
-- the ledger, never begun) or 'fork' (needs a yes in any case).
ALTER TABLE tools.calls ADD COLUMN rule text NOT NULL DEFAULT '';

-- Calls that change something, for a run that goes on from another's history.
CREATE VIEW tools.v_past AS
SELECT c.call_id, c.run_id, c.namespace, c.tool, c.args_digest, c.minted_key, c.status, coalesce(e.state, '') AS effect
  FROM tools.calls c LEFT JOIN tools.effects e ON e.effect_id = c.effect_id
 WHERE c.rule <> 'recall';
GRANT SELECT ON tools.v_past TO holdfast_runner;

-- +goose Down
DROP VIEW tools.v_past;
ALTER TABLE tools.calls DROP COLUMN rule;
