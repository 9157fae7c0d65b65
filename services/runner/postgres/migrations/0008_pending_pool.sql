-- +goose Up
-- Which shared budget an owed model call waits for, if it does.
CREATE OR REPLACE VIEW runner.v_pending AS
SELECT p.run_id, p.namespace, p.item, p.kind, 'open'::text AS state, p.since, to_json(p.detail) AS detail, w.pool
FROM runner.pending p LEFT JOIN runner.pool_waits w ON w.run_id = p.run_id AND p.kind = 'model';

-- +goose Down
DROP VIEW runner.v_pending;
CREATE VIEW runner.v_pending AS
SELECT run_id, namespace, item, kind, 'open'::text AS state, since, to_json(detail) AS detail FROM runner.pending;
GRANT SELECT ON runner.v_pending TO holdfast_console;
