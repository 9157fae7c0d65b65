-- +goose Up
-- What people look for first and what is rare: doubts that nobody has settled,
-- outcomes that came too late, calls that the ledger answered or refused.
CREATE INDEX effects_doubt ON tools.effects (namespace, created_at, effect_id) WHERE state = 'unknown' AND settled_by IS NULL;
CREATE INDEX receipts_late ON tools.receipts (effect_id) WHERE late;
CREATE INDEX calls_spared ON tools.calls (namespace, updated_at) WHERE replayed OR status = 'mismatch';

-- +goose Down
DROP INDEX tools.calls_spared;
DROP INDEX tools.receipts_late;
DROP INDEX tools.effects_doubt;
