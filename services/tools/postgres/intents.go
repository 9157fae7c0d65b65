package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/services/tools"
)

// beginning is an intent on its way to the database.
type beginning struct {
	tools.Begin
	sending func() // is called right before it is sent
}

// opened says what became of the intent of a key that was never used.
type opened int

const (
	openedMissed opened = iota // the key is used, or the call is answered
	openedHeld                 // a stop stands; nothing is written
	openedBegun
)

// plain says that an intent is of the kind that is merged with others: the first of its
// key, for a call that nobody must agree to and that awaits no callback.
func plain(b tools.Begin) bool {
	return b.From.Epoch == 0 && b.From.AttemptID == "" && !b.Takeover && !b.Gated && b.Reply.Hash == ""
}

// newIntents merges the intents of different keys. One whose reply was lost is missed
// when it is sent again, and then found by its attempt.
func newIntents(s *Store) *pg.Group[beginning, opened] {
	return &pg.Group[beginning, opened]{
		Name:  "tools.intents",
		Key:   func(b beginning) string { return b.EffectID },
		Bytes: func(b beginning) int { return 2 * len(b.Call.Args) },
		Many:  s.openMany,
	}
}

// openManySQL commits intents of keys that were never used, with the rows of their calls.
// Effects come first, in the order of their ids, as everywhere. The last column divides by
// zero when a call was answered between the look at it and its turn: its effect must not
// stay, and an error of this class finds the one whose fault it is. LIMIT tells the planner
// that they are few; IS TRUE keeps a look into what was written a look into a hash table.
var openManySQL = `
WITH item AS MATERIALIZED (
	SELECT u.*, (` + standingOf(`s.stop_id`, `u.namespace`, `u.tool`, `u.run_id`) + `) IS NOT NULL AS stopped
	  FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[],
		$11::bigint[], $12::bigint[], $13::bool[], $14::text[], $15::text[], $16::text[], $17::text[], $18::text[], $19::text[])
	  WITH ORDINALITY AS u(effect_id, namespace, tool, key, call_id, run_id, args, args_digest, attempt_id, worker,
		lease, attempts, doubted, tool_digest, pool, minted_key, approval, traceparent, rule, n)
	 LIMIT $20
), effect AS (
	INSERT INTO tools.effects AS e (effect_id, namespace, tool, key, state, epoch, call_id, run_id, args, args_digest,
		attempt_id, worker, lease_until, attempts, doubted)
	SELECT i.effect_id, i.namespace, i.tool, i.key, 'intent', 1, i.call_id, i.run_id, i.args::json, i.args_digest,
		i.attempt_id, i.worker, clock_timestamp() + i.lease * interval '1 millisecond', i.attempts, i.doubted
	  FROM item i
	 WHERE NOT i.stopped AND NOT EXISTS (SELECT FROM tools.calls c WHERE c.call_id = i.call_id AND c.status <> 'open')
	ON CONFLICT (namespace, tool, key) DO NOTHING
	RETURNING effect_id
), call AS (
	INSERT INTO tools.calls AS c (call_id, run_id, namespace, tool, tool_digest, pool, args, args_digest, minted_key, key,
		approval, traceparent, effect_id, acting, rule, status)
	SELECT i.call_id, i.run_id, i.namespace, i.tool, i.tool_digest, i.pool, i.args::json, i.args_digest, i.minted_key, i.key,
		i.approval::json, i.traceparent, i.effect_id, true, i.rule, 'open'
	  FROM item i WHERE (i.effect_id IN (SELECT effect_id FROM effect)) IS TRUE
	ON CONFLICT (call_id) DO UPDATE SET effect_id = excluded.effect_id, acting = true,
		approval = coalesce(excluded.approval, c.approval), updated_at = clock_timestamp()
	WHERE c.status = 'open'
	RETURNING call_id
)
SELECT i.n, i.stopped, (i.effect_id IN (SELECT effect_id FROM effect)) IS TRUE,
	1 / CASE WHEN (i.effect_id IN (SELECT effect_id FROM effect)) IS TRUE AND (i.call_id IN (SELECT call_id FROM call)) IS NOT TRUE THEN 0 ELSE 1 END
  FROM item i`

// divisionByZero is what openManySQL fails with for a call that was answered meanwhile.
//
// Source: PostgreSQL manual, appendix A, "Error Codes".
const divisionByZero = "22012"

func (s *Store) openMany(ctx context.Context, all []beginning) ([]opened, error) {
	var effects, namespaces, names, keys, ids, runs, args, digests, attempts, workers, toolDigests, pools, minted, traces, rules []string
	var approvals []*string
	var leases, tries []int64
	var doubted []bool
	for _, b := range all {
		approval, err := approvalText(b.Call)
		if err != nil {
			return nil, err
		}
		c := b.Call
		effects, namespaces, names, keys = append(effects, b.EffectID), append(namespaces, c.Namespace), append(names, c.Tool), append(keys, c.Key)
		ids, runs, args, digests = append(ids, string(c.ID)), append(runs, string(c.RunID)), append(args, string(c.Args)), append(digests, string(c.ArgsDigest))
		attempts, workers, leases, tries = append(attempts, b.AttemptID), append(workers, b.Worker), append(leases, b.Lease.Milliseconds()), append(tries, int64(b.From.Attempts)+1)
		doubted, toolDigests, pools, minted = append(doubted, b.Doubted), append(toolDigests, string(c.ToolDigest)), append(pools, c.Pool), append(minted, c.MintedKey)
		approvals, traces, rules = append(approvals, approval), append(traces, c.TraceParent), append(rules, c.Rule)
	}
	sending := make([]func(), 0, len(all))
	for _, b := range all {
		sending = append(sending, b.sending)
	}
	out := make([]opened, len(all))
	q := &pgx.Batch{}
	q.Queue(openManySQL, effects, namespaces, names, keys, ids, runs, args, digests, attempts, workers,
		leases, tries, doubted, toolDigests, pools, minted, approvals, traces, rules, len(all)).Query(func(rows pgx.Rows) error {
		var n, one int
		var stopped, begun bool
		_, err := pgx.ForEachRow(rows, []any{&n, &stopped, &begun, &one}, func() error {
			switch {
			case stopped:
				out[n-1] = openedHeld
			case begun:
				out[n-1] = openedBegun
			}
			return nil
		})
		return err
	})
	return out, s.keyed.Send(ctx, q, sending...)
}

// open commits an intent together with others, unless a stop stands.
func (s *Store) open(ctx context.Context, b tools.Begin, sending func()) (opened, error) {
	did, err := s.intents.Do(ctx, beginning{b, sending})
	if pe, ok := errors.AsType[*pgconn.PgError](err); ok && pe.Code == divisionByZero {
		return openedMissed, nil
	}
	return did, unstorable(err)
}
