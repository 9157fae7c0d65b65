-- +goose Up
-- Rows of a journal that are few and that a page of a run looks for by their kind: a run
-- of a hundred thousand rows is not read to find that its budget was never raised.
CREATE INDEX journal_rare ON runner.journal (run_id, seq) WHERE kind IN ('budget_raised', 'context_compacted', 'model_failed');

-- +goose Down
DROP INDEX runner.journal_rare;
