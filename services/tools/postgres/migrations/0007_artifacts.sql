-- +goose Up

-- What calls left behind: bytes in blob.blobs under the scope of the run, or
-- the address of a thing elsewhere. A row is written by the transaction that
-- records the call's outcome, under an id that follows from the call.
CREATE TABLE tools.artifacts (
    artifact_id  text        NOT NULL PRIMARY KEY,
    namespace    text        NOT NULL,
    run_id       text        NOT NULL, -- of the call that acted
    call_id      text        NOT NULL,
    effect_id    text,                 -- null for reads; runs that share the effect share the artifact
    tool         text        NOT NULL,
    name         text        NOT NULL DEFAULT '',
    content_type text        NOT NULL DEFAULT '', -- what the other side said
    bytes        bigint      NOT NULL DEFAULT 0,
    digest       text,
    truncated    boolean     NOT NULL DEFAULT false, -- there was more than is kept
    uri          text,
    kind         text        NOT NULL DEFAULT '',
    title        text        NOT NULL DEFAULT '',
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    CHECK ((digest IS NULL) <> (uri IS NULL))
);
CREATE INDEX artifacts_newest ON tools.artifacts (namespace, created_at, artifact_id);
CREATE INDEX artifacts_run ON tools.artifacts (run_id);
CREATE INDEX artifacts_effect ON tools.artifacts (effect_id) WHERE effect_id IS NOT NULL;

CREATE VIEW tools.v_artifacts AS
SELECT artifact_id, namespace, run_id, call_id, effect_id, tool, name, content_type, bytes, digest, truncated, uri, kind, title, created_at
  FROM tools.artifacts;
GRANT SELECT ON tools.v_artifacts TO holdfast_trigger, holdfast_runner, holdfast_tools, holdfast_approvals, holdfast_console;
GRANT SELECT, INSERT, DELETE ON tools.artifacts TO holdfast_tools;

-- +goose Down
DROP VIEW tools.v_artifacts;
DROP TABLE tools.artifacts;
