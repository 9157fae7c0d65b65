// Package pg is how every service reaches Postgres: the pool, the transaction
// helper, retries, group commit, the migrator, the heartbeat of a worker and the
// relay that announces rows on the bus.
//
// It keeps no session state on the run path and works through PgBouncer in
// transaction mode. Migrations and the heartbeat want a direct connection;
// the heartbeat also works through PgBouncer.
//
// # Announcing rows
//
// A door commits a row, answers 2xx and then announces the row on the bus. The
// row is finished when its receiver has committed it, not when NATS
// acknowledged it. A [Relay] closes the gap. A table whose rows are announced
// has four columns and one index. Where the row is wide, they are a table of
// their own, as trigger.announcements: each announcement is an update.
//
//	announced_at     timestamptz,                                        -- first PubAck
//	landed_at        timestamptz,                                        -- the receiver has it
//	next_announce_at timestamptz NOT NULL DEFAULT clock_timestamp(),     -- due from then on
//	announce_count   int         NOT NULL DEFAULT 0
//
//	-- Only rows that have not landed are in the index, so the sweep stays small.
//	CREATE INDEX commands_owed ON console.commands (next_announce_at) WHERE landed_at IS NULL;
//
// Load returns what is due, with [AnnounceID] as the message id. Two replicas
// may load the same row at the same time; both publish the same message id and
// the stream keeps one:
//
//	SELECT id, ..., announce_count
//	FROM console.commands
//	WHERE landed_at IS NULL AND next_announce_at <= clock_timestamp()
//	ORDER BY next_announce_at
//	LIMIT $1
//
// Mark counts the announcement and sets the next one, 10 s ahead and doubling
// to 5 min. The ids are the ce-ids of the messages that Load returned:
//
//	UPDATE console.commands
//	SET announced_at = coalesce(announced_at, clock_timestamp()),
//	    announce_count = announce_count + 1,
//	    next_announce_at = clock_timestamp() + least(interval '10 s' * 2 ^ least(announce_count, 5), interval '5 min')
//	WHERE cause = ANY ($1) AND landed_at IS NULL
//
// A row whose message is given to Offer may fall due a little later than now: the
// others then leave it to the one that has it in memory.
//
// Landed looks the causes up in the receiver's view:
//
//	UPDATE console.commands d
//	SET landed_at = clock_timestamp(), announced_at = coalesce(d.announced_at, clock_timestamp())
//	FROM runner.v_landed l
//	WHERE d.landed_at IS NULL AND l.run_id = d.run_id::text AND l.cause = d.cause
package pg
