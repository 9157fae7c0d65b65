-- +goose Up
-- Each time that a run went over from one worker to another: how long nobody had it. The
-- statement that takes over writes the row, so no resumption is missing. For reports only,
-- kept for 90 days.
CREATE TABLE runner.takeovers (
    run_id      text NOT NULL,
    epoch       bigint NOT NULL, -- of the new claim
    namespace   text NOT NULL,
    lost_worker text NOT NULL,
    stopped     boolean NOT NULL, -- the worker said that it stops; else it was lost
    seen        timestamptz, -- last sign of life of a lost worker; null: it is not known any more
    at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (run_id, epoch)
);
CREATE INDEX takeovers_at ON runner.takeovers (at);
GRANT SELECT, INSERT, DELETE ON runner.takeovers TO holdfast_runner;

CREATE VIEW runner.v_takeovers AS SELECT run_id, epoch, namespace, stopped, seen, at FROM runner.takeovers;
GRANT SELECT ON runner.v_takeovers TO holdfast_console;

-- +goose Down
DROP VIEW runner.v_takeovers;
DROP TABLE runner.takeovers;
