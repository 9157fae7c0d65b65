-- +goose Up
-- Rows of a cause are looked for from the row on that recorded it, which the state knows:
-- the key of the journal finds them. A release that does not say from where reads the run.
DROP INDEX runner.journal_by_cause;

-- +goose Down
CREATE INDEX journal_by_cause ON runner.journal (run_id, cause);
