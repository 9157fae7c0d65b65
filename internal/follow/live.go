package follow

import (
	"encoding/json"
	"log/slog"
	"sync"

	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// Live hands out what runners show of answers while they are written. A Tail
// that is a Live too lets runs be watched live.
type Live interface {
	// ListenLive calls handle for each message on subject until stop.
	ListenLive(subject string, handle func(data []byte)) (stop func(), err error)
}

const (
	// liveBehind is how many pieces a reader may be behind before it loses some.
	liveBehind = 64
	// liveSize bounds one message: a text of events.MaxDeltaText, escaped.
	liveSize = 8 * events.MaxDeltaText
)

// liveHub has one subscription for each run that somebody of this process
// watches. A subscription to the pieces of every run would bring each of them
// to each process; this way NATS drops at its door what nobody watches.
type liveHub struct {
	from Live
	log  *slog.Logger

	mu   sync.Mutex
	runs map[events.RunID]*liveRun
}

type liveRun struct {
	stop    func()
	readers map[chan events.Delta]struct{}
}

func newLiveHub(tail Tail, log *slog.Logger) *liveHub {
	from, _ := tail.(Live)
	return &liveHub{from: from, log: log, runs: map[events.RunID]*liveRun{}}
}

// subscribe hands out a run's pieces from now on, until stop. A reader that is
// slow loses pieces and is never waited for.
func (h *liveHub) subscribe(run events.RunID) (pieces <-chan events.Delta, stop func()) {
	if h.from == nil {
		return nil, func() {}
	}
	c := make(chan events.Delta, liveBehind)
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.runs[run]
	if r == nil {
		r = &liveRun{readers: map[chan events.Delta]struct{}{}}
		end, err := h.from.ListenLive(events.LiveSubject(run), func(data []byte) { h.publish(run, r, data) })
		if err != nil {
			h.log.Warn("a run cannot be watched live", telemetry.KeyRunID, string(run), telemetry.KeyErr, err)
			return nil, func() {}
		}
		r.stop = end
		h.runs[run] = r
	}
	r.readers[c] = struct{}{}
	return c, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(r.readers, c)
		if len(r.readers) == 0 && h.runs[run] == r {
			delete(h.runs, run)
			r.stop()
		}
	}
}

func (h *liveHub) publish(run events.RunID, r *liveRun, data []byte) {
	d, ok := readDelta(run, data)
	if !ok {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for c := range r.readers {
		select {
		case c <- d:
		default:
		}
	}
}

// readDelta refuses what no runner sends.
func readDelta(run events.RunID, data []byte) (d events.Delta, ok bool) {
	if len(data) > liveSize || json.Unmarshal(data, &d) != nil || d.RunID != run || len(d.Text) > events.MaxDeltaText || len(d.Tool) > 1000 {
		return d, false
	}
	switch d.Kind {
	case events.DeltaText, events.DeltaThinking, events.DeltaToolCall, events.DeltaReset:
		return d, d.Epoch > 0 && d.Turn > 0 && d.N >= 0 && d.Index >= 0
	}
	return d, false
}

// view is what one reader has on its screen.
type view struct {
	namespace   string
	epoch, turn int64 // of the attempt
	shown       bool  // something of it
	settled     int64 // the row that replaced everything before it
}

// take says what the reader is told after d. Pieces of an attempt that was
// given up, or whose row is there, are not shown; a new attempt takes back what
// the one before has shown.
func (v *view) take(d events.Delta) []events.Delta {
	old := d.Epoch < v.epoch || d.Epoch == v.epoch && d.Turn < v.turn
	if d.Namespace != v.namespace || old || d.Turn < v.settled {
		return nil
	}
	var out []events.Delta
	if d.Epoch != v.epoch || d.Turn != v.turn {
		if v.shown && d.Kind != events.DeltaReset {
			out = append(out, events.Delta{RunID: d.RunID, Namespace: d.Namespace, Epoch: v.epoch, Turn: v.turn, Kind: events.DeltaReset})
		}
		v.epoch, v.turn = d.Epoch, d.Turn
	}
	if d.Kind == events.DeltaReset {
		if !v.shown {
			return nil
		}
		v.shown = false
		return append(out, d)
	}
	v.shown = true
	return append(out, d)
}

// row notes a row of the journal: an answer, a failed call and an end replace
// what was shown.
func (v *view) row(e events.RunEvent) {
	if e.Kind == events.FactModelAnswered || e.Kind == events.FactModelFailed || events.Ended(e.Status) {
		v.settled, v.shown = e.Seq, false
	}
}
