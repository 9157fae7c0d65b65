-- +goose Up
-- The numbers beside the entries of the menu, for the doors of all services: each shows
-- them on its pages, and none may read every view they come from. Nothing is counted
-- beyond p_most rows, so that a page costs the same however much waits: a number that
-- reaches it is "at least", and running runs are counted among the newest p_most open
-- ones, of which "more" says that there are others.
-- +goose StatementBegin
CREATE FUNCTION catalog.menu(p_namespace text, p_most int, OUT running bigint, OUT more bool, OUT approvals bigint, OUT doubts bigint, OUT stops bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    SELECT count(*) FILTER (WHERE r.status = 'running'), count(*) >= p_most INTO running, more
      FROM (SELECT status FROM runner.v_runs WHERE namespace = p_namespace AND ended_at IS NULL ORDER BY run_id DESC LIMIT p_most) r;
    SELECT count(*) INTO approvals FROM (SELECT FROM approvals.v_requests WHERE namespace = p_namespace AND state = 'pending' LIMIT p_most) a;
    SELECT count(*) INTO doubts FROM (SELECT FROM tools.v_effects WHERE namespace = p_namespace AND state = 'unknown' AND settled_by IS NULL LIMIT p_most) e;
    SELECT count(*) INTO stops FROM (SELECT FROM tools.v_stops WHERE namespace = p_namespace AND ended_at IS NULL LIMIT p_most) s;
END
$$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION catalog.menu(text, int) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION catalog.menu(text, int) TO holdfast_trigger, holdfast_tools, holdfast_approvals, holdfast_console;

-- +goose Down
DROP FUNCTION catalog.menu(text, int);
