package door_test

import (
	"net/http/httptest"
	"testing"

	"github.com/holdfast-run/holdfast/internal/door"
)

// A heartbeat moves no place, and nothing between may collect or change what is sent.
func TestCaseG01_HeartbeatsCarryNoID(t *testing.T) {
	t.Parallel()
	rec := httptest.NewRecorder()
	s, err := door.NewStream(rec)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send("7", "", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	rec.Body.Reset()
	if err := s.Beat(); err != nil || rec.Body.String() != ": beat\n\n" {
		t.Errorf("a heartbeat is %q, %v", rec.Body, err)
	}
	if h := rec.Header(); h.Get("X-Accel-Buffering") != "no" || h.Get("Cache-Control") != "no-cache, no-transform" || !rec.Flushed {
		t.Errorf("what is between may keep events: %v, flushed %v", h, rec.Flushed)
	}
}
