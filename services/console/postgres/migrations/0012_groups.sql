-- +goose Up
-- The groups that a token's principal is in.
ALTER TABLE catalog.tokens ADD COLUMN groups text[] NOT NULL DEFAULT '{}';
CREATE OR REPLACE VIEW catalog.v_tokens AS
    SELECT id, hash, namespace, role, name, expires_at, revoked_at, groups FROM catalog.tokens;
