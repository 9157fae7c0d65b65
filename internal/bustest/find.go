package bustest

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Find lists the stored messages of every stream that hold a text, in subject,
// header or body, and says how many it looked at.
func (s *Server) Find(t testing.TB, text string) (found []string, looked int) {
	t.Helper()
	c, err := nats.Connect(s.URL().Reveal())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	js, err := jetstream.New(c, jetstream.WithDefaultTimeout(time.Minute)) // a busy machine answers late
	if err != nil {
		t.Fatal(err)
	}
	streams := js.ListStreams(t.Context())
	for info := range streams.Info() {
		stream, err := js.Stream(t.Context(), info.Config.Name)
		if err != nil {
			t.Fatal(err)
		}
		for seq := info.State.FirstSeq; seq <= info.State.LastSeq && seq > 0; seq++ {
			m, err := stream.GetMsg(t.Context(), seq)
			if errors.Is(err, jetstream.ErrMsgNotFound) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			looked++
			if bytes.Contains(m.Data, []byte(text)) || strings.Contains(m.Subject+fmt.Sprint(m.Header), text) {
				found = append(found, fmt.Sprintf("%s %d %s", info.Config.Name, seq, m.Subject))
			}
		}
	}
	if err := streams.Err(); err != nil {
		t.Fatal(err)
	}
	return found, looked
}

// Recording keeps what is written to it, as a process's log.
type Recording struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (r *Recording) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.b.Write(p)
}

func (r *Recording) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.b.String()
}

// Consumers counts the consumers of a stream.
func (s *Server) Consumers(t testing.TB, stream string) int {
	t.Helper()
	c, err := nats.Connect(s.URL().Reveal())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	js, err := jetstream.New(c, jetstream.WithDefaultTimeout(time.Minute)) // a busy machine answers late
	if err != nil {
		t.Fatal(err)
	}
	found, err := js.Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	return found.CachedInfo().State.Consumers
}
