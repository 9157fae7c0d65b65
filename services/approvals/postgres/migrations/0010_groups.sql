-- +goose Up
-- What the inbox groups by, and what people read instead of JSON.
ALTER TABLE approvals.requests
    ADD COLUMN flow text NOT NULL DEFAULT '',       -- the flow at the top of the run's tree
    ADD COLUMN similarity text NOT NULL DEFAULT '', -- empty of requests from before it was kept
    ADD COLUMN preview text NOT NULL DEFAULT '';    -- the tool's template over the arguments

-- Apart from v_requests: whoever may not see arguments may not see this either.
CREATE VIEW approvals.v_previews AS SELECT approval_id, namespace, flow, similarity, preview FROM approvals.requests WHERE asked_at IS NOT NULL;
GRANT SELECT ON approvals.v_previews TO holdfast_approvals, holdfast_console;

-- +goose Down
DROP VIEW approvals.v_previews;
ALTER TABLE approvals.requests DROP COLUMN preview, DROP COLUMN similarity, DROP COLUMN flow;
