-- +goose Up
-- How many runs were started below a run that nothing started. A commit that starts
-- more than may be fails on the bound, whoever else starts some at the same time.
CREATE TABLE runner.trees (
    root_run_id text PRIMARY KEY,
    begun       bigint NOT NULL,
    most        bigint NOT NULL, -- as of the last commit that started some
    CONSTRAINT trees_bound CHECK (begun <= most)
);
GRANT SELECT, INSERT, UPDATE ON runner.trees TO holdfast_runner;

-- +goose Down
DROP TABLE runner.trees;
