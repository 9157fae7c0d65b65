package tools_test

import (
	"testing"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/tools"
)

// An agent's business key outlives its runs, and then is refused for ever.
func TestCalls_ExpiredKeyIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.start()
	first := w.call("refund", `{"charge":"ch_old"}`)
	w.send(first, "")
	w.answer(first.CallID, events.CallSucceeded)
	if _, err := w.db.Pool.Exec(t.Context(), `UPDATE tools.effects SET updated_at = clock_timestamp() - interval '401 days'`); err != nil {
		t.Fatal(err)
	}
	if n, err := p.store.ExpireKeys(t.Context(), tools.KeyRetention, 100); n != 1 || err != nil {
		t.Fatalf("%d keys expired, %v", n, err)
	}
	for _, args := range []string{`{"charge":"ch_old"}`, `{"charge":"ch_old","reason":"again"}`} {
		again := w.call("refund", args)
		w.send(again, "")
		if a := w.answer(again.CallID, events.CallFailed); a.Error == nil || a.Error.Code != tools.CodeExpiredKey {
			t.Errorf("%s: answer %+v", args, a)
		}
	}
	w.wantEffects(first, 1)
	if n := w.count(`SELECT count(*) FROM tools.effects WHERE state = 'expired' AND result IS NULL`); n != 1 {
		t.Errorf("%d tombstones\n%s", n, w.rows())
	}
}

// A record that cannot be understood is neither done nor free.
func TestCalls_DamagedRecordIsNeverRepeated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	first := w.call("refund", `{"charge":"ch_torn"}`)
	w.send(first, "")
	w.answer(first.CallID, events.CallSucceeded)
	if _, err := w.db.Pool.Exec(t.Context(), `UPDATE tools.effects SET result = NULL`); err != nil {
		t.Fatal(err)
	}
	again := w.call("refund", `{"charge":"ch_torn"}`)
	w.send(again, "")
	if a := w.answer(again.CallID, events.CallUnknown); a.Error == nil || a.Error.Code != tools.CodeDamaged || a.InDoubt != tools.DoubtFail {
		t.Errorf("answer %+v", a)
	}
	w.wantEffects(first, 1)
}
