-- +goose Up
-- One role per service. Roles belong to the whole cluster, so another database
-- of the same cluster may be creating them at this very moment: the loser of
-- that race gets duplicate_object or unique_violation and has what it wanted.
-- No password: a deployment sets one, or lets pg_hba.conf decide.
-- +goose StatementBegin
DO $$
DECLARE
    r text;
BEGIN
    FOREACH r IN ARRAY ARRAY['holdfast_trigger', 'holdfast_runner', 'holdfast_tools', 'holdfast_approvals', 'holdfast_console'] LOOP
        IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = r) THEN
            BEGIN
                EXECUTE format('CREATE ROLE %I LOGIN', r);
            EXCEPTION WHEN duplicate_object OR unique_violation THEN
                NULL;
            END;
        END IF;
        -- Per database, so it collides with no other database, and here instead
        -- of in the connection, because PgBouncer passes no such parameter on.
        BEGIN
            EXECUTE format('ALTER ROLE %I IN DATABASE %I SET statement_timeout = ''30s''', r, current_database());
            EXECUTE format('ALTER ROLE %I IN DATABASE %I SET idle_in_transaction_session_timeout = ''15s''', r, current_database());
        EXCEPTION WHEN insufficient_privilege THEN
            RAISE NOTICE 'role % keeps its own time limits: this user may not set them', r;
        END;
    END LOOP;
END
$$;
-- +goose StatementEnd

-- +goose Down
-- Roles stay: other databases of the cluster use them.
SELECT 1;
