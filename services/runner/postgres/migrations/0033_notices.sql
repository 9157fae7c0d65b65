-- +goose Up
-- What people are to be told: a debt until approvals has it. The commit that
-- gives the reason inserts the row; the key makes it one for each run and reason.
CREATE TABLE runner.notices (
    notice_id        text PRIMARY KEY,
    namespace        text NOT NULL,
    channel          text NOT NULL,
    alert_id         text, -- of an alert's notice, whose text is the alert
    body             json, -- of a run's notice; never jsonb: digits are kept
    at               timestamptz NOT NULL DEFAULT clock_timestamp(),
    announced_at     timestamptz,
    announce_count   int NOT NULL DEFAULT 0,
    next_announce_at timestamptz DEFAULT clock_timestamp(),
    landed_at        timestamptz,
    CONSTRAINT notices_say_something CHECK ((alert_id IS NULL) <> (body IS NULL))
);
-- The relay reads what is owed.
CREATE INDEX notices_owed ON runner.notices (next_announce_at) WHERE next_announce_at IS NOT NULL;
GRANT SELECT, INSERT, UPDATE ON runner.notices TO holdfast_runner;

-- +goose Down
DROP TABLE runner.notices;
