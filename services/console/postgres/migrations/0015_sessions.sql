-- +goose Up
-- Who is signed in with a browser: the SHA-256 of what the cookie holds, never the
-- cookie. A session is a person's, whom an OpenID provider named, or of a token.
CREATE TABLE catalog.sessions (
    id           text        PRIMARY KEY,
    hash         bytea       NOT NULL UNIQUE CHECK (octet_length(hash) = 32),
    namespace    text        NOT NULL,
    role         text        NOT NULL CHECK (role IN ('viewer', 'operator', 'approver', 'admin')),
    name         text        NOT NULL CHECK (length(name) BETWEEN 1 AND 120),
    groups       text[]      NOT NULL DEFAULT '{}',
    grants       text[]      NOT NULL CHECK (namespace || '/' || role = ANY (grants)), -- what it may be turned into: NAMESPACE/ROLE
    namespaces   text[]      NOT NULL, -- of the grants
    token_id     text        REFERENCES catalog.tokens, -- with what it was begun; NULL for a person
    issuer       text        NOT NULL DEFAULT '',
    subject      text        NOT NULL DEFAULT '',
    user_agent   text        NOT NULL DEFAULT '',
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_seen_at timestamptz NOT NULL DEFAULT clock_timestamp(), -- to a minute
    expires_at   timestamptz NOT NULL,
    idle         interval    NOT NULL,
    revoked_at   timestamptz,
    revoked_by   text,
    CHECK ((token_id IS NULL) = (issuer <> '' AND subject <> ''))
);
CREATE INDEX sessions_namespaces ON catalog.sessions USING gin (namespaces);
CREATE INDEX sessions_expiry ON catalog.sessions (expires_at);
CREATE INDEX sessions_token ON catalog.sessions (token_id) WHERE token_id IS NOT NULL;

-- Sign-ins that were finished: a state counts once.
CREATE TABLE catalog.sign_ins (
    state bytea       PRIMARY KEY,
    at    timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX sign_ins_at ON catalog.sign_ins (at);

GRANT SELECT, INSERT, UPDATE, DELETE ON catalog.sessions TO holdfast_console;
GRANT SELECT, INSERT, DELETE ON catalog.sign_ins TO holdfast_console;

-- What every door verifies a cookie by. A session of a token is what the token is, as
-- long as the token counts.
CREATE VIEW catalog.v_sessions AS
    SELECT s.id, s.hash, s.namespace, coalesce(t.role, s.role) AS role, s.name, coalesce(t.groups, s.groups) AS groups,
           least(s.expires_at, s.last_seen_at + s.idle, t.expires_at) AS ends_at, coalesce(s.revoked_at, t.revoked_at) AS revoked_at,
           s.last_seen_at, s.token_id
      FROM catalog.sessions s LEFT JOIN catalog.tokens t ON t.id = s.token_id;
GRANT SELECT ON catalog.v_sessions TO holdfast_trigger, holdfast_runner, holdfast_tools, holdfast_approvals, holdfast_console;

-- Every door says that a session is in use, once a minute; it can do nothing else to it.
-- +goose StatementBegin
CREATE FUNCTION catalog.session_seen(p_hash bytea) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    UPDATE catalog.sessions SET last_seen_at = clock_timestamp()
     WHERE hash = p_hash AND last_seen_at < clock_timestamp() - interval '1 minute' AND revoked_at IS NULL
       AND least(expires_at, last_seen_at + idle) > clock_timestamp()
$$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION catalog.session_seen(bytea) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION catalog.session_seen(bytea) TO holdfast_trigger, holdfast_tools, holdfast_approvals, holdfast_console;

-- +goose Down
DROP FUNCTION catalog.session_seen(bytea);
DROP VIEW catalog.v_sessions;
DROP TABLE catalog.sign_ins;
DROP TABLE catalog.sessions;
