-- +goose Up
-- Which release of the program a worker is; null of one that does not say.
ALTER TABLE runner.workers ADD COLUMN release text;

CREATE VIEW runner.v_releases AS SELECT name, release FROM runner.workers WHERE release IS NOT NULL;
GRANT SELECT ON runner.v_releases TO holdfast_console;

-- +goose Down
DROP VIEW runner.v_releases;
ALTER TABLE runner.workers DROP COLUMN release;
