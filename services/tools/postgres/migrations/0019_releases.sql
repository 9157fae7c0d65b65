-- +goose Up
-- Which release of the program a worker is; null of one that does not say.
ALTER TABLE tools.workers ADD COLUMN release text;

CREATE VIEW tools.v_releases AS SELECT name, release FROM tools.workers WHERE release IS NOT NULL;
GRANT SELECT ON tools.v_releases TO holdfast_console;

-- +goose Down
DROP VIEW tools.v_releases;
ALTER TABLE tools.workers DROP COLUMN release;
