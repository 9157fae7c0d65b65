-- +goose Up

-- Orders that no new write leaves. They are never deleted: they are the audit.
-- The statement that commits an intent reads the standing ones.
CREATE TABLE tools.stops (
    stop_id   text        PRIMARY KEY,
    namespace text        NOT NULL,
    scope     text        NOT NULL CHECK (scope IN ('all', 'agent', 'tool')),
    name      text        NOT NULL, -- empty for all
    note      text        NOT NULL CHECK (note <> ''),
    principal text        NOT NULL,
    since     timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at  timestamptz,
    ended_by  text,
    end_note  text,
    CHECK ((scope = 'all') = (name = '')),
    CHECK ((ended_at IS NULL) = (ended_by IS NULL))
);
-- One standing stop of a scope and name; also what every intent looks at.
CREATE UNIQUE INDEX stops_standing ON tools.stops (namespace, scope, name) WHERE ended_at IS NULL;
CREATE INDEX stops_newest ON tools.stops (namespace, since, stop_id);

-- A held effect is an intent that nobody has and that names the stop.
ALTER TABLE tools.effects ADD COLUMN held_by text;
CREATE INDEX effects_held ON tools.effects (held_by) WHERE state = 'intent' AND held_by IS NOT NULL;

CREATE VIEW tools.v_stops AS
SELECT stop_id, namespace, scope, name, note, principal, since, ended_at, ended_by, end_note FROM tools.stops;

-- Calls that wait because of a stop.
CREATE VIEW tools.v_held AS
SELECT c.call_id, c.run_id, c.namespace, c.tool, e.effect_id, s.stop_id, s.scope, s.name, s.note, s.principal, s.since, s.ended_at
  FROM tools.effects e
  JOIN tools.calls c ON c.effect_id = e.effect_id AND c.status = 'open'
  JOIN tools.stops s ON s.stop_id = e.held_by
 WHERE e.state = 'intent' AND e.held_by IS NOT NULL;

GRANT SELECT ON tools.v_stops, tools.v_held TO holdfast_trigger, holdfast_runner, holdfast_tools, holdfast_approvals, holdfast_console;
GRANT SELECT, INSERT, UPDATE ON tools.stops TO holdfast_tools;

-- +goose Down
DROP VIEW tools.v_held;
DROP VIEW tools.v_stops;
DROP INDEX tools.effects_held;
ALTER TABLE tools.effects DROP COLUMN held_by;
DROP TABLE tools.stops;
