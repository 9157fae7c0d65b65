-- +goose Up
-- Doubts are rare among actions: without it a list of them reads every request.
CREATE INDEX requests_by_kind ON approvals.requests (namespace, kind, created_at, approval_id) WHERE asked_at IS NOT NULL;

-- +goose Down
DROP INDEX approvals.requests_by_kind;
