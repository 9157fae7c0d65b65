-- +goose Up
-- What reports group by stands in the row of what was spent, so a report reads the rows of
-- its window and no runs: flow and trigger of the run at the top, labels of the run itself.
-- They are copied by a trigger, so an older release beside this one writes them too. Of a
-- run that is deleted its deletion takes them away again. Rows are kept for 400 days.
ALTER TABLE runner.spend
    ADD COLUMN flow    text NOT NULL DEFAULT '(deleted)', -- name of the flow at the top, empty for what is below none
    ADD COLUMN trigger text NOT NULL DEFAULT '(deleted)', -- kind and name of what started the run at the top
    ADD COLUMN labels  jsonb; -- null: the run was deleted

-- +goose StatementBegin
CREATE FUNCTION runner.spend_groups() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    SELECT r.labels INTO NEW.labels FROM runner.runs r WHERE r.run_id = NEW.run_id;
    SELECT CASE WHEN r.kind = 'flow' AND r.run_id <> NEW.run_id THEN r.name ELSE '' END, concat_ws(' ', r.trigger->>'kind', nullif(r.trigger->>'name', ''))
      INTO NEW.flow, NEW.trigger FROM runner.runs r WHERE r.run_id = NEW.root_run_id;
    NEW.flow := coalesce(NEW.flow, CASE WHEN NEW.root_run_id = NEW.run_id THEN '' ELSE '(deleted)' END);
    NEW.trigger := coalesce(NEW.trigger, '(deleted)');
    RETURN NEW;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER spend_groups BEFORE INSERT ON runner.spend FOR EACH ROW EXECUTE FUNCTION runner.spend_groups();

UPDATE runner.spend SET flow = '' WHERE root_run_id = run_id;
UPDATE runner.spend s SET labels = r.labels FROM runner.runs r WHERE r.run_id = s.run_id;
UPDATE runner.spend s SET flow = CASE WHEN r.kind = 'flow' AND r.run_id <> s.run_id THEN r.name ELSE '' END, trigger = concat_ws(' ', r.trigger->>'kind', nullif(r.trigger->>'name', ''))
  FROM runner.runs r WHERE r.run_id = s.root_run_id;

GRANT DELETE ON runner.spend TO holdfast_runner;
CREATE OR REPLACE VIEW runner.v_spend AS
SELECT namespace, hour, run_id, root_run_id, agent, model, calls, input_tokens, cache_read_tokens, cache_write_tokens, output_tokens, cost_micro_usd, cost_estimated_micro_usd, flow, trigger, labels FROM runner.spend;

-- +goose Down
DROP TRIGGER spend_groups ON runner.spend;
DROP FUNCTION runner.spend_groups();
DROP VIEW runner.v_spend;
CREATE VIEW runner.v_spend AS
SELECT namespace, hour, run_id, root_run_id, agent, model, calls, input_tokens, cache_read_tokens, cache_write_tokens, output_tokens, cost_micro_usd, cost_estimated_micro_usd FROM runner.spend;
GRANT SELECT ON runner.v_spend TO holdfast_console;
REVOKE DELETE ON runner.spend FROM holdfast_runner;
ALTER TABLE runner.spend DROP COLUMN labels, DROP COLUMN trigger, DROP COLUMN flow;
