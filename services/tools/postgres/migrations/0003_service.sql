-- +goose Up

-- The ledger for programs that are not our agents. on_doubt marks their rows:
-- it is the policy of the act that the intent is about. Their tools are called
-- program/<name>, which no Tool document can be; their attempts f<epoch>.
ALTER TABLE tools.effects ADD COLUMN on_doubt text CHECK (on_doubt IN ('ask', 'retry', 'fail'));

-- A key that outlived its retention is a tombstone: it keeps the key and
-- nothing of what was done.
ALTER TABLE tools.effects DROP CONSTRAINT effects_state_check;
ALTER TABLE tools.effects ADD CONSTRAINT effects_state_check CHECK (state IN ('intent', 'succeeded', 'failed', 'unknown', 'expired'));

-- Leases of programs that ran out.
CREATE INDEX effects_lease ON tools.effects (lease_until) WHERE state = 'intent' AND on_doubt IN ('ask', 'fail');
-- What may become a tombstone, oldest first.
CREATE INDEX effects_age ON tools.effects (updated_at) WHERE state IN ('succeeded', 'failed') OR (state = 'unknown' AND settled_by IS NOT NULL);

-- +goose Down
DROP INDEX tools.effects_age;
DROP INDEX tools.effects_lease;
ALTER TABLE tools.effects DROP COLUMN on_doubt;
