-- +goose Up
-- Which lane an agent's owed model calls wait in. One that was not used for an hour
-- may be given anew.
CREATE TABLE runner.lanes (
    namespace text NOT NULL,
    name      text NOT NULL, -- of the agent
    lane      int NOT NULL,
    used_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (namespace, name)
);
GRANT SELECT, INSERT, UPDATE, DELETE ON runner.lanes TO holdfast_runner;
ALTER TABLE runner.runs ADD COLUMN priority text NOT NULL DEFAULT 'interactive';

-- +goose Down
ALTER TABLE runner.runs DROP COLUMN priority;
DROP TABLE runner.lanes;
