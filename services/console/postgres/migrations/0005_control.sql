-- +goose Up
-- Commands that make a run (fork), speak to one (message) and move one to newer
-- definitions (migrate). A run is retried once: what comes of it may be retried.
ALTER TABLE console.commands DROP CONSTRAINT commands_kind_check;
ALTER TABLE console.commands ADD CONSTRAINT commands_kind_check
    CHECK (kind IN ('cancel', 'pause', 'resume', 'raise_budget', 'signal', 'fork', 'message', 'migrate'));
ALTER TABLE console.commands ADD COLUMN retry_of text;
CREATE UNIQUE INDEX commands_retry ON console.commands (namespace, retry_of) WHERE retry_of IS NOT NULL;

-- +goose Down
DELETE FROM console.commands WHERE kind IN ('fork', 'message', 'migrate');
DROP INDEX console.commands_retry;
ALTER TABLE console.commands DROP COLUMN retry_of;
ALTER TABLE console.commands DROP CONSTRAINT commands_kind_check;
ALTER TABLE console.commands ADD CONSTRAINT commands_kind_check CHECK (kind IN ('cancel', 'pause', 'resume', 'raise_budget', 'signal'));
