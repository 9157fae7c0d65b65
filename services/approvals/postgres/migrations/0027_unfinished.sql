-- +goose Up
-- What the audit follows up: approved calls whose outcome it does not have, or has as
-- unknown. The index had left the second out, so that the whole table was read.
DROP INDEX approvals.requests_unfinished;
CREATE INDEX requests_unfinished ON approvals.requests (decided_at) WHERE state = 'approved' AND outcome IN ('', 'unknown');

-- +goose Down
DROP INDEX approvals.requests_unfinished;
CREATE INDEX requests_unfinished ON approvals.requests (decided_at) WHERE state = 'approved' AND outcome = '';
