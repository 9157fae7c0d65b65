-- +goose Up
-- What a person made of the arguments. digest is then what the decision is bound to,
-- for every reader of it; asked_digest keeps what was asked. A process of an older
-- release announces such a yes with the new digest and without the arguments, and
-- nobody runs what was asked because of it.
ALTER TABLE approvals.requests
    ADD COLUMN edited_args json, -- never jsonb: digits and bytes are kept
    ADD COLUMN asked_digest text,
    ADD CONSTRAINT edits_are_bound CHECK ((edited_args IS NULL) = (asked_digest IS NULL)),
    ADD CONSTRAINT edits_are_approved CHECK (edited_args IS NULL OR state = 'approved');
ALTER TABLE approvals.decisions ADD COLUMN args json; -- of an attempt that changed them

-- +goose Down
ALTER TABLE approvals.decisions DROP COLUMN args;
ALTER TABLE approvals.requests
    DROP CONSTRAINT edits_are_approved, DROP CONSTRAINT edits_are_bound,
    DROP COLUMN asked_digest, DROP COLUMN edited_args;
