//go:build !holdfast_broken_ledger

package tools_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/tools"
)

// A worker dies between act and record, the call is repeated, also under other
// message ids, and is asked for again: there is one artifact, it is the one that
// the result names, and its bytes are whole.
func TestCaseD06_OneArtifactUnderCrashAndRepeat(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"draw", "pay_key"} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c := w.call(tool, `{"mode":"png"}`)
			w.killed(c, "tools.acted")
			a := w.answer(c.CallID, events.CallSucceeded)
			w.send(c, ":again")
			w.idle()
			var result struct {
				ContentType string `json:"content_type"`
				Artifacts   []struct {
					Artifact, Type string
					Bytes          int
				}
			}
			if err := json.Unmarshal(a.Result, &result); err != nil || len(result.Artifacts) != 1 || result.Artifacts[0].Bytes != len(png) || result.Artifacts[0].Type != "image/png" {
				t.Fatalf("result %.300s: %v", a.Result, err)
			}
			if w.outside.requests(c) < 2 {
				t.Error("nothing was repeated")
			}
			p := w.start()
			list, err := p.service.Artifacts(t.Context(), tools.ArtifactFilter{Namespace: "default", RunID: c.RunID, Limit: 10})
			if err != nil || len(list) != 1 || list[0].ID != result.Artifacts[0].Artifact || list[0].CallID != c.CallID {
				t.Fatalf("artifacts %+v: %v", list, err)
			}
			got, err := p.service.Artifact(t.Context(), "default", list[0].ID)
			if err != nil || !bytes.Equal(got.Data, png) || got.ContentType != "image/png" {
				t.Errorf("%d bytes of %s: %v", len(got.Data), got.ContentType, err)
			}
			if _, err := p.service.Artifact(t.Context(), "other", list[0].ID); err == nil {
				t.Error("another namespace reads it")
			}
		})
	}
}

// An outcome that is not recorded leaves no artifact: that of a refused attempt,
// and of one that was taken over.
func TestCaseD06_NoArtifactWithoutItsResult(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.start()
	c := w.call("draw", `{"mode":"png"}`)
	run, art := c.RunID, tools.Artifact{ID: tools.ArtifactID(c.CallID, 0), Data: png}
	w.send(c, "")
	w.answer(c.CallID, events.CallSucceeded)
	_, mine, err := p.store.Finish(t.Context(), tools.Finish{
		Attempt: tools.Attempt{CallID: c.CallID, ID: "t-stranger", Epoch: 7}, Worker: "w", Result: []byte(`{}`),
		Conclusion: tools.Conclusion{State: tools.EffectSucceeded}, Artifacts: []tools.Artifact{art, {ID: tools.ArtifactID(c.CallID, 1), Data: []byte("late")}},
	})
	if err != nil || mine {
		t.Fatalf("a stranger's outcome: %v %v", mine, err)
	}
	if n := w.count(`SELECT count(*) FROM tools.v_artifacts WHERE run_id = $1`, string(run)); n != 1 {
		t.Errorf("%d artifacts, want 1", n)
	}
}
