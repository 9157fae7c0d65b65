-- +goose Up

-- Bytes that are too large for a message. Rows are only added; they go with
-- what they belong to, by a trigger on that table, so no role may delete.
CREATE SCHEMA blob;
CREATE TABLE blob.blobs (
    -- "delivery:<delivery id>" or "run:<run id>".
    scope      text        NOT NULL,
    digest     text        NOT NULL CHECK (digest ~ '^sha256:[0-9a-f]{64}$'),
    data       bytea       NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (scope, digest)
);

-- Deletes what belongs to rows that are deleted: the arguments of the trigger
-- are the kind of scope and the column that names it. It works on all deleted
-- rows at once, as the transition table "gone".
-- +goose StatementBegin
CREATE FUNCTION blob.forget() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
    EXECUTE format('DELETE FROM blob.blobs b USING gone g WHERE b.scope = %L || g.%I::text', TG_ARGV[0] || ':', TG_ARGV[1]);
    RETURN NULL;
END
$$;
-- +goose StatementEnd

GRANT USAGE ON SCHEMA blob TO holdfast_trigger, holdfast_runner, holdfast_tools, holdfast_approvals, holdfast_console;
GRANT SELECT, INSERT ON blob.blobs TO holdfast_trigger, holdfast_runner, holdfast_tools, holdfast_approvals, holdfast_console;

-- +goose Down
DROP SCHEMA blob CASCADE;
