package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// finished is the answer to a start that waited.
type finished struct {
	client.Started
	Output json.RawMessage `json:"output"`
}

func startWaitsForTheEnd(t *testing.T, d *deployment) {
	j := job{Job: "waits", Do: []string{"read", "pay"}}
	body := []byte(`{"input":` + string(j.input()) + `}`)
	headers := map[string]string{"Idempotency-Key": "waits", "Prefer": "wait=30"}
	a := d.send(t, http.MethodPost, "/v1/agents/clerk/runs", d.token, body, headers)
	var f finished
	a.into(t, &f)
	if a.status != http.StatusOK || f.Status != events.StatusCompleted || a.header.Get("Location") != "/v1/runs/"+string(f.RunID) {
		t.Fatalf("%d %s", a.status, a.body)
	}
	d.finished(t, f.RunID, j, 0)
	if r := d.runOf(t, f.RunID, events.StatusCompleted); string(r.Output) != string(f.Output) {
		t.Errorf("the answer has the output %s, the run %s", f.Output, r.Output)
	}
	again := d.send(t, http.MethodPost, "/v1/agents/clerk/runs", d.token, body, headers)
	if again.status != http.StatusOK || again.header.Get("Idempotency-Replayed") != "true" || string(again.body) != string(a.body) {
		t.Errorf("the repeat: %d %s, first %s", again.status, again.body, a.body)
	}
	// A run that needs a person takes longer: 202, and it goes on.
	slow := job{Job: "waits-for-a-person", Do: []string{"order"}}
	s := accepted(t, d.send(t, http.MethodPost, "/v1/agents/clerk/runs?wait=1", d.token, []byte(`{"input":`+string(slow.input())+`}`), nil))
	question := d.approval(t, s.RunID, events.ApprovalAction)
	if _, err := d.approver.Decide(t.Context(), question.ApprovalID, client.Decision{Decision: "approve", Digest: question.Digest}); err != nil {
		t.Fatal(err)
	}
	d.finished(t, s.RunID, slow, 0)
}

func startStreamsTheRun(t *testing.T, d *deployment) {
	j := job{Job: "streams", Do: []string{"read", "pay"}}
	last := d.out.hold(t, j.Job, len(j.Do)) // until the stream is there
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.edge+"/v1/agents/clerk/runs", strings.NewReader(`{"input":`+string(j.input())+`}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Authorization": {"Bearer " + d.token}, "Content-Type": {"application/json"}, "Accept": {"text/event-stream"}}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	a := answer{status: resp.StatusCode, header: resp.Header}
	stream := bufio.NewReader(resp.Body)
	for !bytes.Contains(a.body, []byte("id: 1\n")) {
		line, err := stream.ReadBytes('\n')
		if err != nil {
			t.Fatalf("%d %s: %v", a.status, a.body, err)
		}
		a.body = append(a.body, line...)
	}
	last.wait(t)
	last.release()
	rest, err := io.ReadAll(stream)
	if err != nil {
		t.Fatal(err)
	}
	a.body = append(a.body, rest...)
	id := events.RunID(a.header.Get("Holdfast-Run-Id"))
	if a.status != http.StatusOK || !id.Valid() || a.header.Get("Location") != "/v1/runs/"+string(id) || a.header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%d %v %s", a.status, a.header, a.body)
	}
	d.finished(t, id, j, 0)
	// The same as the run's own stream tells, from the first event to the end.
	own := d.send(t, http.MethodGet, "/v1/runs/"+string(id)+"/events", d.token, nil, nil)
	if diff := cmp.Diff(kept(own.body), kept(a.body)); diff != "" {
		t.Errorf("(-GET +POST):\n%s", diff)
	}
	// The last answer passes by while it is written, piece by piece.
	var said string
	if err := json.Unmarshal(d.runOf(t, id, events.StatusCompleted).Output, &said); err != nil || written(t, a.body, id) != said {
		t.Errorf("the pieces say %q, the run %q (%v)", written(t, a.body, id), said, err)
	}
	if text := string(a.body); !strings.Contains(text, "id: 1\n") || !strings.Contains(text, "event: end\n") || !strings.Contains(text, `"kind":"run_completed"`) {
		t.Errorf("the stream is\n%s", text)
	}
}

// written joins the pieces of text in a stream.
func written(t *testing.T, stream []byte, run events.RunID) string {
	t.Helper()
	var text string
	for frame := range strings.SplitSeq(string(stream), "\n\n") {
		data, ok := strings.CutPrefix(frame, "event: delta\ndata: ")
		if !ok {
			continue
		}
		var piece events.Delta
		if err := json.Unmarshal([]byte(data), &piece); err != nil || piece.RunID != run {
			t.Errorf("a piece that is none of the run's: %s (%v)", frame, err)
		}
		if piece.Kind == events.DeltaText {
			text += piece.Text
		}
	}
	return text
}

// kept is a stream without what only passes by: beats and pieces of answers.
func kept(stream []byte) string {
	var out []string
	for frame := range strings.SplitSeq(string(stream), "\n\n") {
		if !strings.HasPrefix(frame, ":") && !strings.HasPrefix(frame, "event: delta\n") {
			out = append(out, frame)
		}
	}
	return strings.Join(out, "\n\n")
}

// largeInputArrivesWhole follows an input of 5 MiB, with numbers that no float
// holds, from the door to the model, the journal, the run and the events.
func largeInputArrivesWhole(t *testing.T, d *deployment) {
	const exact = `{"a":8202522731445525542,"b":9007199254740993,"c":0.1,"d":12345678901234567890.123,"e":1e400,"f":-0,"look":"x\\u0000y"}`
	note := `[` + exact + `,"` + strings.Repeat("0123456789abcdef", 5<<16) + `"]`
	j := job{Job: "large", Do: []string{"pay"}}
	input := `{"job":"large","do":["pay"],"note":` + note + `}`
	first := d.out.hold(t, j.Job, 0)
	var id events.RunID
	{
		key := map[string]string{"Idempotency-Key": "a-large-input"}
		a := d.send(t, http.MethodPost, "/v1/agents/clerk/runs", d.token, []byte(`{"input":`+input+`}`), key)
		for again := 0; a.status == http.StatusServiceUnavailable && again < 5; again++ { // a busy disk: nothing was changed, so clients come again
			a = d.send(t, http.MethodPost, "/v1/agents/clerk/runs", d.token, []byte(`{"input":`+input+`}`), key)
		}
		id = accepted(t, a).RunID
	}
	if prompt := first.wait(t).Request.FirstText(); !strings.Contains(prompt, input) {
		t.Errorf("the model reads %d bytes, the input has %d", len(prompt), len(input))
	}
	first.release()
	d.finished(t, id, j, 0)
	if r := d.runOf(t, id, events.StatusCompleted); string(r.Input) != input {
		t.Errorf("the run shows %d bytes of input, sent were %d", len(r.Input), len(input))
	}
	for name, path := range map[string]string{"journal": "/journal?limit=1", "stream": "/events"} {
		if a := d.send(t, http.MethodGet, "/v1/runs/"+string(id)+path, d.token, nil, nil); !strings.Contains(string(a.body), `"input":`+input) {
			t.Errorf("the %s of %d bytes does not have the input as it was sent", name, len(a.body))
		}
	}
	if n := d.count(t, `SELECT count(*) FROM blob.blobs b JOIN trigger.v_deliveries d ON b.scope = 'delivery:' || d.delivery_id WHERE d.run_id = $1`, string(id)); n != 1 {
		t.Errorf("%d blobs of the start, want 1", n)
	}
}
