package postgres_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-run/holdfast/internal/pgtest"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/tools"
	"github.com/holdfast-run/holdfast/services/tools/postgres"
)

type bench struct {
	t     *testing.T
	admin *pgxpool.Pool
	pool  *pgxpool.Pool // of the store
	store *postgres.Store
	call  tools.Call
}

func setup(t *testing.T) *bench {
	t.Helper()
	db := pgtest.New(t)
	run := events.NewRunID()
	pool := db.Open(t, "holdfast_tools")
	return &bench{t: t, admin: db.Pool, pool: pool, store: postgres.New(pool), call: tools.Call{
		ID: events.NewCallID(run, 3, 0), RunID: run, Namespace: "default", Tool: "pay", ToolDigest: "sha256:t", Pool: "default",
		Args: []byte(`{}`), ArgsDigest: "sha256:a", MintedKey: "k", Key: "k", Status: "open",
	}}
}

func (b *bench) begin(attempt, worker string, from tools.Claim, takeover bool) tools.Begin {
	return tools.Begin{
		Call: b.call, EffectID: tools.EffectID("default", "pay", b.call.Key), AttemptID: attempt, Worker: worker,
		Lease: time.Second, From: from, Takeover: takeover, Doubted: takeover,
	}
}

func (b *bench) mustBegin(in tools.Begin) tools.Began {
	b.t.Helper()
	began, err := b.store.Begin(b.t.Context(), in)
	if err != nil {
		b.t.Fatal(err)
	}
	return began
}

func (b *bench) exec(sql string, args ...any) {
	b.t.Helper()
	if _, err := b.admin.Exec(b.t.Context(), sql, args...); err != nil {
		b.t.Fatal(err)
	}
}

// beat writes a worker's heartbeat: age old, fresh for that long.
func (b *bench) beat(worker string, age, fresh time.Duration) {
	b.t.Helper()
	b.exec(`INSERT INTO tools.workers (name, beat, fresh_since) VALUES ($1, clock_timestamp() - $2 * interval '1 ms', clock_timestamp() - $3 * interval '1 ms')
ON CONFLICT (name) DO UPDATE SET beat = excluded.beat, fresh_since = excluded.fresh_since`, worker, age.Milliseconds(), fresh.Milliseconds())
}

func finish(b tools.Begin, epoch int64, state string) tools.Finish {
	return tools.Finish{
		Attempt:    tools.Attempt{CallID: b.Call.ID, EffectID: b.EffectID, ID: b.AttemptID, Epoch: epoch},
		Worker:     b.Worker,
		Conclusion: tools.Conclusion{State: state}, Result: []byte(`{"n":9007199254740993}`), Acted: true,
	}
}

// A lost reply is repeated by the same attempt: it finds its own commit.
func TestBegin_RepeatAfterALostReply(t *testing.T) {
	t.Parallel()
	b := setup(t)
	in := b.begin("t-1", "w1", tools.Claim{}, false)
	first, again := b.mustBegin(in), b.mustBegin(in)
	first.Waited, again.Waited = 0, 0
	if first != again || first.Lost || first.Epoch != 1 {
		t.Errorf("first %+v, again %+v", first, again)
	}
	if other := b.mustBegin(b.begin("t-2", "w1", tools.Claim{}, false)); !other.Lost {
		t.Errorf("another attempt of the same worker got %+v", other)
	}
}

// A lease is not used up by waiting for a connection: where many wait, every intent
// would come too late for its act, and be renewed, and wait again.
func TestBegin_WaitsOutsideItsLease(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var held []*pgxpool.Conn
	for range b.pool.Config().MaxConns {
		c, err := b.pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, c)
	}
	in := b.begin("t-1", "w1", tools.Claim{}, false)
	in.Lease = 50 * time.Millisecond
	var began tools.Began
	asked, done := make(chan struct{}), make(chan error, 1)
	go func() {
		close(asked)
		var err error
		began, err = b.store.Begin(t.Context(), in)
		done <- err
	}()
	<-asked
	time.Sleep(10 * in.Lease)
	for _, c := range held {
		c.Release()
	}
	if err := <-done; err != nil || began.Waited < in.Lease {
		t.Errorf("waited %s before the lease of %s, %v", began.Waited, in.Lease, err)
	}
}

func TestFinish_RepeatAfterALostReply(t *testing.T) {
	t.Parallel()
	b := setup(t)
	in := b.begin("t-1", "w1", tools.Claim{}, false)
	b.mustBegin(in)
	for i := range 2 {
		calls, mine, err := b.store.Finish(t.Context(), finish(in, 1, tools.EffectSucceeded))
		if err != nil || !mine || len(calls) != 1 || string(calls[0].Result) != `{"n":9007199254740993}` {
			t.Errorf("time %d: %+v %v %v", i, calls, mine, err)
		}
	}
	late := in
	late.AttemptID = "t-0"
	if _, mine, err := b.store.Finish(t.Context(), finish(late, 1, tools.EffectFailed)); err != nil || mine {
		t.Errorf("another attempt's outcome counted: %v %v", mine, err)
	}
}

// The statement that takes over checks everything itself, by the database's
// clock.
func TestBegin_TakeoverChecksTheBeats(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		owner, ownBeat, ownFresh time.Duration
		lease                    string
		stopped                  bool
		want                     bool
	}{
		"the owner is dead":           {owner: 2 * time.Second, ownBeat: 0, ownFresh: time.Minute, want: true},
		"the owner stopped":           {stopped: true, ownFresh: time.Minute, want: true},
		"the owner lives":             {owner: 1200 * time.Millisecond, ownFresh: time.Minute},
		"we are late ourselves":       {owner: 5 * time.Second, ownBeat: time.Second, ownFresh: time.Minute},
		"we are fresh again only now": {owner: 5 * time.Second, ownFresh: time.Second},
		"the lease runs":              {owner: 5 * time.Second, ownFresh: time.Minute, lease: "1 hour"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.mustBegin(b.begin("t-1", "owner", tools.Claim{}, false))
			if tc.lease == "" {
				tc.lease = "-1 s"
			}
			b.exec(`UPDATE tools.effects SET lease_until = clock_timestamp() + $1::text::interval`, tc.lease)
			b.beat("owner", tc.owner, time.Hour)
			if tc.stopped {
				b.exec(`UPDATE tools.workers SET beat = '-infinity' WHERE name = 'owner'`)
			}
			b.beat("me", tc.ownBeat, tc.ownFresh)
			from := tools.Claim{Epoch: 1, AttemptID: "t-1", Worker: "owner", Attempts: 1}

			st, err := b.store.Load(t.Context(), events.CallTool{CallID: b.call.ID, Namespace: "default", Tool: "pay"}, "k", "me")
			if err != nil || st.Effect == nil || !st.Owner.Known || !st.Self.Known {
				t.Fatalf("%+v %v", st, err)
			}
			if began := b.mustBegin(b.begin("t-2", "me", from, true)); began.Lost == tc.want {
				t.Errorf("takeover %+v, want %v", began, tc.want)
			}
			if !tc.want {
				d := tools.Doubt{Call: b.call, EffectID: tools.EffectID("default", "pay", "k"), From: from, Takeover: true, Worker: "me", InDoubt: "ask"}
				if _, ok, err := b.store.Doubt(t.Context(), d); err != nil || ok {
					t.Errorf("a doubt was marked: %v %v", ok, err)
				}
			}
		})
	}
}

// An attempt that was taken over comes back while the new one is at work: its
// outcome is kept as a late receipt and says nothing about the effect.
func TestFinish_AFencedAttemptRecordsNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	old := b.begin("t-1", "owner", tools.Claim{}, false)
	b.mustBegin(old)
	b.exec(`UPDATE tools.effects SET lease_until = clock_timestamp() - interval '1 s'`)
	b.beat("owner", 5*time.Second, time.Hour)
	b.beat("me", 0, time.Minute)
	now := b.begin("t-2", "me", tools.Claim{Epoch: 1, AttemptID: "t-1", Worker: "owner", Attempts: 1}, true)
	if began := b.mustBegin(now); began.Lost || began.Epoch != 2 {
		t.Fatalf("takeover %+v", began)
	}
	if calls, mine, err := b.store.Finish(t.Context(), finish(old, 1, tools.EffectFailed)); err != nil || mine || len(calls) != 0 {
		t.Errorf("the fenced attempt answered %+v, mine %v, %v", calls, mine, err)
	}
	var state string
	var late int
	if err := b.admin.QueryRow(t.Context(), `SELECT e.state, (SELECT count(*) FROM tools.receipts r WHERE r.effect_id = e.effect_id AND r.late) FROM tools.effects e`).Scan(&state, &late); err != nil || state != tools.EffectIntent || late != 1 {
		t.Errorf("state %s, %d late receipts (%v), want intent and 1", state, late, err)
	}
	if calls, mine, err := b.store.Finish(t.Context(), finish(now, 2, tools.EffectSucceeded)); err != nil || !mine || len(calls) != 1 || calls[0].Status != events.CallSucceeded {
		t.Errorf("the attempt in force: %+v, mine %v, %v", calls, mine, err)
	}
}

// Of many processes that begin one key, one does.
func TestBegin_OneWins(t *testing.T) {
	t.Parallel()
	b := setup(t)
	won := make(chan bool, 16)
	for i := range cap(won) {
		go func() {
			in := b.begin("t-"+string(rune('a'+i)), "w"+string(rune('a'+i)), tools.Claim{}, false)
			in.Call.ID = events.NewCallID(b.call.RunID, 3, i)
			began, err := b.store.Begin(t.Context(), in)
			if err != nil {
				t.Error(err)
			}
			won <- err == nil && !began.Lost
		}()
	}
	n := 0
	for range cap(won) {
		if <-won {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d of %d began", n, cap(won))
	}
}

// A call that joins while the outcome is committed is either answered by it or
// told that the effect is no longer open.
func TestAttach_NeverMissesTheOutcome(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for round := range 30 {
		b.call.Key = "k" + string(rune('a'+round))
		b.call.ID = events.NewCallID(b.call.RunID, int64(round+1), 0)
		in := b.begin("t-1", "w1", tools.Claim{}, false)
		in.AttemptID += b.call.Key
		b.mustBegin(in)
		second := b.call
		second.ID = events.NewCallID(b.call.RunID, int64(round+1), 1)
		answered := make(chan []tools.Call, 1)
		go func() {
			calls, mine, err := b.store.Finish(t.Context(), finish(in, 1, tools.EffectSucceeded))
			if err != nil || !mine {
				t.Errorf("finish: %v %v", mine, err)
			}
			answered <- calls
		}()
		attached, err := b.store.Attach(t.Context(), second, in.EffectID)
		if err != nil {
			t.Fatal(err)
		}
		calls := <-answered
		if want := map[bool]int{true: 2, false: 1}[attached]; len(calls) != want {
			t.Fatalf("round %d: attached %v and %d calls answered", round, attached, len(calls))
		}
	}
}
