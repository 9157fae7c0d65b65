-- +goose Up
-- What the door that starts runs may show to who asked for them: runs that the
-- API started, and nothing of any other run.
CREATE VIEW runner.v_api_runs AS
SELECT run_id, namespace, seq, status, output, error
FROM runner.runs WHERE trigger->>'kind' = 'api';
CREATE VIEW runner.v_api_events AS
SELECT j.run_id, r.namespace, j.seq, j.kind, j.status, j.at, j.cause, j.worker, j.data
FROM runner.journal j JOIN runner.runs r USING (run_id) WHERE r.trigger->>'kind' = 'api';
GRANT SELECT ON runner.v_api_runs, runner.v_api_events TO holdfast_trigger;

-- Inputs that children were started with by reference go with the child.
CREATE TRIGGER forget AFTER DELETE ON runner.runs REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION blob.forget('run', 'run_id');

-- +goose Down
DROP TRIGGER forget ON runner.runs;
DROP VIEW runner.v_api_events;
DROP VIEW runner.v_api_runs;
