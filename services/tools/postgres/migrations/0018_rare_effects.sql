-- +goose Up
-- A list by a state that few effects are in reads those, and not all that stand before
-- them. Intents and doubts have effects_open; what succeeded is everywhere.
CREATE INDEX effects_rare ON tools.effects (namespace, state, created_at, effect_id) WHERE state IN ('failed', 'expired');

-- +goose Down
DROP INDEX tools.effects_rare;
