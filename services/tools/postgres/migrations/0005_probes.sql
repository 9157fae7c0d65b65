-- +goose Up

-- A doubt that a lookup is to decide. Its calls stay open; wake_at says when a
-- sweep sends one of them to look again.
ALTER TABLE tools.effects DROP CONSTRAINT effects_in_doubt_check;
ALTER TABLE tools.effects ADD CONSTRAINT effects_in_doubt_check CHECK (in_doubt IN ('ask', 'fail', 'probe'));
ALTER TABLE tools.effects ADD COLUMN probe_since timestamptz; -- when it came in doubt, by the database's clock
ALTER TABLE tools.effects ADD COLUMN probes int NOT NULL DEFAULT 0; -- lookups since then that decided nothing
ALTER TABLE tools.effects ADD CONSTRAINT effects_probe_check
    CHECK (state <> 'unknown' OR in_doubt <> 'probe' OR (probe_since IS NOT NULL AND next_attempt_at IS NOT NULL AND wake_at IS NOT NULL));

-- What is being looked up now.
CREATE VIEW tools.v_probes AS
SELECT e.effect_id, e.namespace, e.tool, c.call_id, c.run_id, e.probe_since, e.probes, e.next_attempt_at
  FROM tools.effects e
  JOIN tools.calls c ON c.effect_id = e.effect_id AND c.status = 'open'
 WHERE e.state = 'unknown' AND e.in_doubt = 'probe';
GRANT SELECT ON tools.v_probes TO holdfast_console, holdfast_tools;

-- +goose Down
DROP VIEW tools.v_probes;
ALTER TABLE tools.effects DROP COLUMN probes, DROP COLUMN probe_since;
