-- +goose Up
-- What became of posting the ends of runs: one row per run.
CREATE VIEW tools.v_callbacks AS
SELECT c.run_id, c.namespace, c.call_id, e.effect_id,
       CASE WHEN c.status = 'succeeded' THEN 'delivered'
            WHEN c.status <> 'open' THEN 'failed'
            WHEN last.at IS NOT NULL THEN 'retrying'
            ELSE 'owed' END AS state,
       coalesce(e.attempts, 0) AS attempts, e.next_attempt_at,
       CASE WHEN c.status = 'succeeded' THEN NULL
            ELSE coalesce(c.error->>'message', e.error->>'message', last.body->>'error') END AS last_error,
       c.updated_at
  FROM tools.calls c
  LEFT JOIN tools.effects e ON e.effect_id = c.effect_id
  LEFT JOIN LATERAL (SELECT r.at, r.body FROM tools.receipts r WHERE r.effect_id = c.effect_id
                      ORDER BY r.at DESC, r.attempt_id LIMIT 1) last ON true
 WHERE c.tool = 'holdfast.callback';
GRANT SELECT ON tools.v_callbacks TO holdfast_console, holdfast_tools;

-- +goose Down
DROP VIEW tools.v_callbacks;
