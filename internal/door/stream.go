package door

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Stream writes server-sent events. A client that does not take a write within
// its deadline is dropped; it resumes with Last-Event-ID. A Stream is not safe
// for concurrent use.
// Source: WHATWG HTML, "Server-sent events", section 9.2.
type Stream struct {
	w   http.ResponseWriter
	ctl *http.ResponseController
}

// streamWriteWithin bounds one write to a stream's client; a large one has more
// time, at 256 KiB a second. Tests shorten it.
var streamWriteWithin = 10 * time.Second

// NewStream begins a stream: it sends the headers and a hint to reconnect
// after one second.
func NewStream(w http.ResponseWriter) (*Stream, error) {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no") // proxies must not collect events
	w.WriteHeader(http.StatusOK)
	s := &Stream{w: w, ctl: http.NewResponseController(w)}
	return s, s.write([]byte("retry: 1000\n\n"))
}

// Send writes one event. Empty id and event are left out; data may have
// several lines. An id must not contain line breaks or NUL.
func (s *Stream) Send(id, event string, data []byte) error {
	var b bytes.Buffer
	if id != "" {
		fmt.Fprintf(&b, "id: %s\n", id)
	}
	if event != "" {
		fmt.Fprintf(&b, "event: %s\n", event)
	}
	for line := range strings.SplitSeq(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(data)), "\n") {
		fmt.Fprintf(&b, "data: %s\n", line)
	}
	b.WriteByte('\n')
	return s.write(b.Bytes())
}

// Place moves the client's Last-Event-ID without an event: a block without data
// is not dispatched.
func (s *Stream) Place(id string) error { return s.write([]byte("id: " + id + "\n\n")) }

// Beat writes a comment, which clients ignore and which moves no id.
func (s *Stream) Beat() error { return s.write([]byte(": beat\n\n")) }

func (s *Stream) write(b []byte) error {
	_ = s.ctl.SetWriteDeadline(time.Now().Add(streamWriteWithin + time.Duration(len(b)>>18)*time.Second))
	if _, err := s.w.Write(b); err != nil {
		return fmt.Errorf("write event: %w", err)
	}
	if err := s.ctl.Flush(); err != nil {
		return fmt.Errorf("flush event: %w", err)
	}
	return nil
}
