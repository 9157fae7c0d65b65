-- +goose Up
-- One row per run and concurrency key, from its start to its end. A run waits under
-- all of its keys or holds all of them. Holders of a key are counted by owner: a run
-- shares the place of a run above it.
CREATE TABLE runner.slots (
    run_id      text NOT NULL,
    namespace   text NOT NULL,
    key         text NOT NULL, -- digest
    shown       text NOT NULL,
    name        text NOT NULL, -- of the agent or flow; '' for a key of the whole namespace
    max         bigint NOT NULL,
    rank        int NOT NULL,  -- 0 interactive, 1 batch
    place       bigint GENERATED ALWAYS AS IDENTITY,
    owner       text NOT NULL,
    held        boolean NOT NULL,
    since       timestamptz NOT NULL DEFAULT clock_timestamp(), -- of holding, else of waiting
    replaced_by text, -- the run in whose favour this one is to end
    woken_at    timestamptz, -- last time that the run was told; null when it knows
    wakes       int NOT NULL DEFAULT 0,
    PRIMARY KEY (run_id, key)
);
CREATE INDEX slots_held ON runner.slots (namespace, key, owner) WHERE held;
CREATE INDEX slots_waiting ON runner.slots (namespace, key, rank, place) WHERE NOT held AND replaced_by IS NULL;
CREATE INDEX slots_untold ON runner.slots (woken_at) WHERE woken_at IS NOT NULL;
-- The lock of a key: whoever takes a place under it has this row.
CREATE TABLE runner.slot_keys (
    namespace text NOT NULL,
    key       text NOT NULL,
    used_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (namespace, key)
);
CREATE INDEX slot_keys_used ON runner.slot_keys (used_at);
GRANT SELECT, INSERT, UPDATE, DELETE ON runner.slots, runner.slot_keys TO holdfast_runner;

CREATE VIEW runner.v_slots AS
SELECT run_id, namespace, key, shown, name, max, rank, place, owner, held, since, replaced_by FROM runner.slots;
GRANT SELECT ON runner.v_slots TO holdfast_console;

-- +goose Down
DROP VIEW runner.v_slots;
DROP TABLE runner.slot_keys;
DROP TABLE runner.slots;
