-- +goose Up
-- Bounded permissions: requests that they allow are born approved. A use is counted in
-- the commit that creates the request.
CREATE TABLE approvals.grants (
    grant_id   text PRIMARY KEY,
    namespace  text NOT NULL,
    tool       text NOT NULL CHECK (tool <> ''),
    agent      text NOT NULL DEFAULT '', -- empty: any
    condition  text NOT NULL DEFAULT '', -- CEL over args; empty: any
    max_uses   bigint NOT NULL CHECK (max_uses > 0),
    used       bigint NOT NULL DEFAULT 0,
    amount_of  text NOT NULL DEFAULT '', -- the argument that max_amount bounds
    max_amount numeric,
    amount     numeric NOT NULL DEFAULT 0,
    expires_at timestamptz NOT NULL,
    comment    text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_by text NOT NULL CHECK (created_by <> ''),
    role       text NOT NULL DEFAULT '', -- of created_by, when it was made
    groups     text[] NOT NULL DEFAULT '{}',
    revoked_at timestamptz,
    revoked_by text NOT NULL DEFAULT '',
    CONSTRAINT grants_uses CHECK (used BETWEEN 0 AND max_uses),
    CONSTRAINT grants_amount CHECK ((amount_of = '') = (max_amount IS NULL) AND amount >= 0 AND (max_amount IS NULL OR amount <= max_amount)),
    CONSTRAINT grants_revoked CHECK ((revoked_at IS NULL) = (revoked_by = ''))
);
CREATE INDEX grants_by_tool ON approvals.grants (namespace, tool) WHERE revoked_at IS NULL;
CREATE INDEX grants_by_time ON approvals.grants (namespace, created_at, grant_id);

CREATE TABLE approvals.grant_uses (
    approval_id text PRIMARY KEY REFERENCES approvals.requests (approval_id),
    grant_id    text NOT NULL REFERENCES approvals.grants (grant_id),
    amount      numeric NOT NULL DEFAULT 0,
    at          timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX grant_uses_by_grant ON approvals.grant_uses (grant_id, at);

-- What was decided alike before, for proposals.
CREATE INDEX requests_decided_alike ON approvals.requests (namespace, similarity, decided_at) WHERE state IN ('approved', 'rejected') AND similarity <> '';

GRANT SELECT, INSERT, UPDATE ON approvals.grants TO holdfast_approvals;
GRANT SELECT, INSERT ON approvals.grant_uses TO holdfast_approvals;

-- +goose Down
DROP INDEX approvals.requests_decided_alike;
DROP TABLE approvals.grant_uses;
DROP TABLE approvals.grants;
