-- +goose Up
-- A large input travels by reference to a copy that goes with its delivery.
CREATE TRIGGER forget AFTER DELETE ON trigger.deliveries REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION blob.forget('delivery', 'delivery_id');

-- +goose Down
DROP TRIGGER forget ON trigger.deliveries;
