-- +goose Up
-- An answer changes a call's row in its place: no index contains what it changes, and
-- each page keeps room for it. What the ledger answered or refused by itself, which people
-- count and which is rare, has rows of its own. A trigger writes them, so an older release
-- beside this one does too.
CREATE TABLE tools.spared (
    call_id   text        PRIMARY KEY REFERENCES tools.calls ON DELETE CASCADE,
    namespace text        NOT NULL,
    at        timestamptz NOT NULL -- when the call changed last
);
CREATE INDEX spared_at ON tools.spared (namespace, at);
GRANT SELECT, INSERT, UPDATE, DELETE ON tools.spared TO holdfast_tools;

CREATE VIEW tools.v_spared AS
SELECT s.namespace, s.at, s.call_id, c.status, c.replayed FROM tools.spared s JOIN tools.calls c ON c.call_id = s.call_id;
GRANT SELECT ON tools.v_spared TO holdfast_console, holdfast_tools;

-- +goose StatementBegin
CREATE FUNCTION tools.keep_spared() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
    INSERT INTO tools.spared (call_id, namespace, at) VALUES (NEW.call_id, NEW.namespace, NEW.updated_at)
    ON CONFLICT (call_id) DO UPDATE SET at = excluded.at;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER keep_spared AFTER INSERT OR UPDATE ON tools.calls FOR EACH ROW
    WHEN (NEW.replayed OR NEW.status = 'mismatch') EXECUTE FUNCTION tools.keep_spared();
INSERT INTO tools.spared (call_id, namespace, at) SELECT call_id, namespace, updated_at FROM tools.calls WHERE replayed OR status = 'mismatch';
DROP INDEX tools.calls_spared;
ALTER TABLE tools.calls SET (fillfactor = 45);

-- Effects of a run are found by its calls; those of programs have none.
CREATE INDEX effects_programs ON tools.effects (run_id) WHERE on_doubt IS NOT NULL;
DROP INDEX tools.effects_run;

-- +goose Down
CREATE INDEX effects_run ON tools.effects (run_id);
DROP INDEX tools.effects_programs;
ALTER TABLE tools.calls RESET (fillfactor);
CREATE INDEX calls_spared ON tools.calls (namespace, updated_at) WHERE replayed OR status = 'mismatch';
DROP TRIGGER keep_spared ON tools.calls;
DROP FUNCTION tools.keep_spared();
DROP VIEW tools.v_spared;
DROP TABLE tools.spared;
