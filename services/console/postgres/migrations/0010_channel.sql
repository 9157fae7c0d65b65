-- +goose Up
-- A new kind of definition: where people are told something.
ALTER TABLE catalog.versions DROP CONSTRAINT versions_kind_check;
ALTER TABLE catalog.versions ADD CONSTRAINT versions_kind_check
    CHECK (kind IN ('agent', 'flow', 'tool', 'model', 'webhook', 'schedule', 'budget', 'mcpserver', 'channel'));
