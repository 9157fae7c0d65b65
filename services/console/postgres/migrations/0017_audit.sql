-- +goose Up
-- What people and programs did at the doors of all services: who, what, to what, why,
-- from where, and what came of it. No bodies and no secrets. A row is there before the
-- act; status is empty until its end is known, and for ever when nobody came to say.
CREATE TABLE console.audit (
    id         text        PRIMARY KEY, -- ordered by time
    at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    namespace  text        NOT NULL,
    service    text        NOT NULL,
    actor      text        NOT NULL,
    role       text        NOT NULL,
    token_id   text        NOT NULL,
    session_id text        NOT NULL,
    door       text        NOT NULL, -- page, client or api
    action     text        NOT NULL,
    target     text        NOT NULL,
    reason     text        NOT NULL DEFAULT '',
    request_id text        NOT NULL,
    status     int,                  -- of HTTP
    ended_at   timestamptz
);
CREATE INDEX audit_list ON console.audit (namespace, at DESC, id DESC);
CREATE INDEX audit_actor ON console.audit (namespace, actor, at DESC, id DESC);
CREATE INDEX audit_at ON console.audit (at);
GRANT SELECT ON console.audit TO holdfast_console;

-- The doors of all services write by these two alone: no role changes or deletes a row.
-- +goose StatementBegin
CREATE FUNCTION catalog.audit_begin(p_rows json) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO console.audit (id, namespace, service, actor, role, token_id, session_id, door, action, target, reason, request_id, status, ended_at)
    SELECT id, namespace, service, actor, role, token_id, session_id, door, action, target, reason, request_id, nullif(status, 0), CASE WHEN status <> 0 THEN clock_timestamp() END
      FROM json_to_recordset(p_rows) AS r (id text, namespace text, service text, actor text, role text, token_id text, session_id text, door text, action text, target text, reason text, request_id text, status int)
    ON CONFLICT DO NOTHING
$$;
CREATE FUNCTION catalog.audit_end(p_rows json) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    UPDATE console.audit a SET status = r.status, reason = r.reason, target = r.target, ended_at = clock_timestamp()
      FROM json_to_recordset(p_rows) AS r (id text, status int, reason text, target text)
     WHERE a.id = r.id AND a.status IS NULL
$$;
CREATE FUNCTION console.audit_sweep(p_keep interval, p_most int) RETURNS int LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE n int;
BEGIN
    DELETE FROM console.audit WHERE id IN (SELECT id FROM console.audit WHERE at < clock_timestamp() - p_keep ORDER BY at LIMIT p_most);
    GET DIAGNOSTICS n = ROW_COUNT;
    RETURN n;
END
$$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION catalog.audit_begin(json), catalog.audit_end(json), console.audit_sweep(interval, int) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION catalog.audit_begin(json), catalog.audit_end(json) TO holdfast_trigger, holdfast_tools, holdfast_approvals, holdfast_console;
GRANT EXECUTE ON FUNCTION console.audit_sweep(interval, int) TO holdfast_console;

-- +goose Down
DROP FUNCTION console.audit_sweep(interval, int);
DROP FUNCTION catalog.audit_end(json);
DROP FUNCTION catalog.audit_begin(json);
DROP TABLE console.audit;
