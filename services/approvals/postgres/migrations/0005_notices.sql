-- +goose Up
-- What people are told, and what became of it. The key makes it one for each run
-- and reason, and for each alert.
CREATE TABLE approvals.notices (
    notice_id    text PRIMARY KEY,
    namespace    text NOT NULL,
    channel      text NOT NULL,
    reason       text NOT NULL,
    run_id       text NOT NULL DEFAULT '',
    body         json NOT NULL, -- as the runner sent it
    state        text NOT NULL DEFAULT 'due' CHECK (state IN ('due', 'sending', 'delivered', 'failed', 'unknown')),
    attempts     integer NOT NULL DEFAULT 0,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    next_at      timestamptz DEFAULT clock_timestamp(), -- of the next attempt; while sending, when the attempt counts as lost
    delivered_at timestamptz,
    problem      text NOT NULL DEFAULT '',
    CONSTRAINT notices_wait CHECK ((next_at IS NOT NULL) = (state IN ('due', 'sending'))),
    CONSTRAINT notices_delivered CHECK ((delivered_at IS NOT NULL) = (state = 'delivered'))
);
CREATE INDEX notices_due ON approvals.notices (next_at) WHERE next_at IS NOT NULL;
CREATE INDEX notices_by_time ON approvals.notices (namespace, created_at, notice_id);
CREATE INDEX notices_by_state ON approvals.notices (namespace, state, created_at, notice_id);
CREATE INDEX notices_by_run ON approvals.notices (run_id) WHERE run_id <> '';

CREATE VIEW approvals.v_notices AS
SELECT notice_id, namespace, channel, reason, run_id, state, attempts, created_at, next_at, delivered_at, problem
FROM approvals.notices;

GRANT SELECT, INSERT, UPDATE ON approvals.notices TO holdfast_approvals;
GRANT SELECT ON approvals.v_notices TO holdfast_runner, holdfast_console, holdfast_approvals;

-- +goose Down
DROP VIEW approvals.v_notices;
DROP TABLE approvals.notices;
