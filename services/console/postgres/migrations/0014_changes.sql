-- +goose Up
-- Which version a name meant, by whom and from when on: one row for each change of
-- the name, written by whoever changes it. Of changes made before this table was there
-- only the last is known.
CREATE TABLE catalog.changes (
    namespace  text        NOT NULL,
    kind       text        NOT NULL,
    name       text        NOT NULL,
    version    int         NOT NULL CHECK (version > 0),
    digest     text        NOT NULL,
    changed_at timestamptz NOT NULL,
    changed_by text        NOT NULL,
    PRIMARY KEY (namespace, kind, name, version)
);
INSERT INTO catalog.changes (namespace, kind, name, version, digest, changed_at, changed_by)
SELECT namespace, kind, name, version, digest, updated_at, updated_by FROM catalog.current;
GRANT SELECT, INSERT ON catalog.changes TO holdfast_console;

-- +goose StatementBegin
CREATE FUNCTION catalog.note_change() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
    INSERT INTO catalog.changes (namespace, kind, name, version, digest, changed_at, changed_by)
    VALUES (NEW.namespace, NEW.kind, NEW.name, NEW.version, NEW.digest, NEW.updated_at, NEW.updated_by)
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER note_change AFTER INSERT OR UPDATE ON catalog.current FOR EACH ROW EXECUTE FUNCTION catalog.note_change();

-- +goose Down
DROP TRIGGER note_change ON catalog.current;
DROP FUNCTION catalog.note_change();
DROP TABLE catalog.changes;
