package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// inbox plays the approvals service: what is posted, with trouble on the way.
type inbox struct {
	mu      sync.Mutex
	pending []request
	posts   map[string][]string // approval id -> decisions
	fail    map[string]int      // approval id -> how many posts are answered 503 first
}

func (b *inbox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.Header.Get("Authorization") != "Bearer approver" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if r.Method == http.MethodGet {
		_ = json.NewEncoder(w).Encode(map[string]any{"items": b.pending})
		return
	}
	id := strings.Split(r.URL.Path, "/")[3]
	if b.fail[id] > 0 {
		b.fail[id]--
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	var in struct{ Decision string }
	_ = json.NewDecoder(r.Body).Decode(&in)
	if id == "refused" {
		w.WriteHeader(http.StatusConflict)
		return
	}
	b.posts[id] = append(b.posts[id], in.Decision)
}

func (b *inbox) got(id string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.posts[id]...)
}

func proposal(id, shop string) request {
	return request{ApprovalID: id, Kind: "action", Args: json.RawMessage(fmt.Sprintf(`{"night":"n","shop":%q,"product":"p"}`, shop))}
}

func setupDesk(t *testing.T, b *inbox, reserved ...string) *desk {
	t.Helper()
	if b.posts == nil {
		b.posts = map[string][]string{}
	}
	s := httptest.NewServer(b)
	t.Cleanup(s.Close)
	effects := func(business string) int {
		if business == "n/shop-16/p" {
			return 1
		}
		return 0
	}
	d := newDesk(newAPI(s.URL, "approver"), effects, reserved...)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); d.watch(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return d
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 5 s: %s", what)
		}
	}
}

func TestDesk_DecidesTwiceAndKeepsAsking(t *testing.T) {
	t.Parallel()
	b := &inbox{
		pending: []request{proposal("a", "shop-01"), proposal("b", "shop-02"), proposal("c", "shop-03")},
		fail:    map[string]int{"b": 3},
	}
	d := setupDesk(t, b)
	d.setOpen(true)
	eventually(t, "each posted twice", func() bool { return len(b.got("a")) == 2 && len(b.got("b")) == 2 && len(b.got("c")) == 2 })
	eventually(t, "six posts accepted", func() bool { _, posts, _, accepted, _ := d.tally(); return posts == 6 && accepted == 6 })
	decided, _, pairs, _, other := d.tally()
	if len(decided) != 3 || pairs != 2 || len(other) != 0 {
		t.Errorf("%d decided, %d pairs, others %v; want 3, 2 and none", len(decided), pairs, other)
	}
}

func TestDesk_ClosedAndReserved(t *testing.T) {
	t.Parallel()
	b := &inbox{pending: []request{proposal("a", "shop-01"), proposal("b", "shop-02"), proposal("r", "shop-20")}}
	d := setupDesk(t, b, "shop-20")
	eventually(t, "three seen", func() bool { free, shops := d.waits(); return free == 2 && len(shops) == 3 })
	if n := d.release(t.Context(), 1); n != 1 {
		t.Errorf("released %d, want 1", n)
	}
	d.setOpen(true)
	eventually(t, "the free ones decided", func() bool { return len(b.got("a")) == 2 && len(b.got("b")) == 2 })
	if got := b.got("r"); len(got) != 0 {
		t.Errorf("a reserved shop was decided: %v", got)
	}
	if !d.releaseShop(t.Context(), "shop-20") || d.releaseShop(t.Context(), "shop-20") {
		t.Error("a reserved shop must be decided by name, once")
	}
	eventually(t, "the reserved one decided", func() bool { return len(b.got("r")) == 2 })
}

func TestDesk_SettlesDoubtsByLooking(t *testing.T) {
	t.Parallel()
	happened, not := proposal("x", "shop-16"), proposal("y", "shop-18")
	happened.Kind, not.Kind = "doubt", "doubt"
	b := &inbox{pending: []request{happened, not}}
	setupDesk(t, b)
	eventually(t, "both doubts answered", func() bool { return len(b.got("x")) == 1 && len(b.got("y")) == 1 })
	if diff := cmp.Diff([]string{"happened", "not_happened"}, []string{b.got("x")[0], b.got("y")[0]}); diff != "" {
		t.Errorf("answers (-want +got)\n%s", diff)
	}
}

func TestDesk_CountsRefusals(t *testing.T) {
	t.Parallel()
	b := &inbox{pending: []request{proposal("refused", "shop-01")}}
	d := setupDesk(t, b)
	d.setOpen(true)
	eventually(t, "both posts answered", func() bool { _, posts, _, _, _ := d.tally(); return posts == 2 })
	if _, _, _, accepted, other := d.tally(); accepted != 0 || len(other) != 2 || !strings.Contains(other[0], "409") {
		t.Errorf("accepted %d, others %v", accepted, other)
	}
}
