-- +goose Up

-- What operators define (catalog, read by every service) and what they order
-- (console, read by nobody else).

CREATE SCHEMA catalog;
CREATE SCHEMA console;

GRANT USAGE ON SCHEMA catalog TO holdfast_trigger, holdfast_runner, holdfast_tools, holdfast_approvals, holdfast_console;
GRANT USAGE ON SCHEMA console TO holdfast_console;

-- One immutable version of a definition. The body is canonical JSON and stays
-- json: jsonb would reorder keys and drop digits.
CREATE TABLE catalog.versions (
    namespace  text        NOT NULL CHECK (namespace ~ '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$'),
    kind       text        NOT NULL CHECK (kind IN ('agent', 'flow', 'tool', 'model', 'webhook', 'schedule', 'budget')),
    name       text        NOT NULL CHECK (length(name) BETWEEN 1 AND 120),
    digest     text        NOT NULL CHECK (digest ~ '^sha256:[0-9a-f]{64}$'),
    body       json        NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_by text        NOT NULL,
    PRIMARY KEY (namespace, kind, name, digest)
);
-- Readers that pinned a version look it up without its name.
CREATE INDEX versions_digest ON catalog.versions (namespace, kind, digest);

-- Which version a name means now. version counts the changes of the name, from 1.
CREATE TABLE catalog.current (
    namespace  text        NOT NULL,
    kind       text        NOT NULL,
    name       text        NOT NULL,
    digest     text        NOT NULL,
    version    int         NOT NULL CHECK (version > 0),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_by text        NOT NULL,
    PRIMARY KEY (namespace, kind, name),
    FOREIGN KEY (namespace, kind, name, digest) REFERENCES catalog.versions
);

-- Names that were taken away. A name that comes back goes on counting here.
CREATE TABLE catalog.deletions (
    namespace  text        NOT NULL,
    kind       text        NOT NULL,
    name       text        NOT NULL,
    version    int         NOT NULL CHECK (version > 0),
    digest     text        NOT NULL,
    deleted_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    deleted_by text        NOT NULL,
    PRIMARY KEY (namespace, kind, name, version)
);

-- Bearer tokens: the SHA-256, never the token.
CREATE TABLE catalog.tokens (
    id         text        PRIMARY KEY,
    hash       bytea       NOT NULL UNIQUE CHECK (octet_length(hash) = 32),
    namespace  text        NOT NULL CHECK (namespace ~ '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$'),
    role       text        NOT NULL CHECK (role IN ('viewer', 'operator', 'approver', 'admin')),
    name       text        NOT NULL CHECK (length(name) BETWEEN 1 AND 120),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_by text        NOT NULL,
    expires_at timestamptz,
    revoked_at timestamptz,
    revoked_by text
);
CREATE INDEX tokens_namespace ON catalog.tokens (namespace, id);

-- An operator's order about a run. It is finished when the runner has recorded
-- it (landed_at), not when the bus took it (announced_at).
CREATE TABLE console.commands (
    id              text        PRIMARY KEY,
    namespace       text        NOT NULL,
    run_id          text        NOT NULL,
    kind            text        NOT NULL CHECK (kind IN ('cancel', 'pause', 'resume', 'raise_budget', 'signal')),
    body            json        NOT NULL,
    principal       text        NOT NULL,
    idempotency_key text,
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    announced_at    timestamptz,
    announce_count  int         NOT NULL DEFAULT 0,
    next_announce_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    landed_at       timestamptz,
    -- One Idempotency-Key is one command in its namespace.
    UNIQUE (namespace, idempotency_key)
);
-- What the relay still owes, soonest first.
CREATE INDEX commands_owed ON console.commands (next_announce_at) WHERE landed_at IS NULL;
CREATE INDEX commands_run ON console.commands (run_id, created_at);

GRANT SELECT, INSERT ON catalog.versions, catalog.deletions TO holdfast_console;
GRANT SELECT, INSERT, UPDATE, DELETE ON catalog.current TO holdfast_console;
GRANT SELECT, INSERT, UPDATE ON catalog.tokens TO holdfast_console;
GRANT SELECT, INSERT, UPDATE ON console.commands TO holdfast_console;

-- The read contract of the catalog.
CREATE VIEW catalog.v_versions AS
    SELECT namespace, kind, name, digest, body, created_at, created_by FROM catalog.versions;
CREATE VIEW catalog.v_current AS
    SELECT namespace, kind, name, digest, version, updated_at FROM catalog.current;
CREATE VIEW catalog.v_tokens AS
    SELECT id, hash, namespace, role, name, expires_at, revoked_at FROM catalog.tokens;

GRANT SELECT ON catalog.v_versions, catalog.v_current, catalog.v_tokens
    TO holdfast_trigger, holdfast_runner, holdfast_tools, holdfast_approvals, holdfast_console;

-- +goose Down
DROP SCHEMA console CASCADE;
DROP SCHEMA catalog CASCADE;
