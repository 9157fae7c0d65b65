package trigger

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

func template(t *testing.T, source string) *spec.Template {
	t.Helper()
	tm, err := spec.ParseTemplate(json.RawMessage(source))
	if err != nil {
		t.Fatal(err)
	}
	return tm
}

func TestMapWebhook(t *testing.T) {
	t.Parallel()
	body := `{"id":9007199254740993,"shop":"shop-04","price":1e400,"sent_at":"10:00"}`
	request := Request{
		Header: http.Header{"X-Kind": {"order"}, "Authorization": {"Bearer secret"}, "Cookie": {"a=b"}, "X-Bad": {"\xff"}},
		Query:  url.Values{"tenant": {"acme", "other"}},
		Body:   []byte(body),
	}
	event := Event{ID: "evt_1", Body: json.RawMessage(body)}
	hook := Webhook{Namespace: "default", Name: "orders", Kind: events.KindAgent, Target: "check"}
	with := func(change func(*Webhook)) Webhook { h := hook; change(&h); return h }
	for name, tc := range map[string]struct {
		hook       Webhook
		wantInput  string
		wantKey    string
		wantLabels map[string]string
		refused    string
	}{
		"the body as it is": {hook, body, "evt_1", nil, ""},
		"digits through a template": {with(func(h *Webhook) { h.Input = template(t, `{"order":"${body.id}","price":"${body.price}"}`) }),
			`{"order":9007199254740993,"price":1e400}`, "evt_1", nil, ""},
		"headers and query": {with(func(h *Webhook) { h.Input = template(t, `["${headers.x-kind}","${query.tenant}"]`) }),
			`["order","acme"]`, "evt_1", nil, ""},
		"a key of its own": {with(func(h *Webhook) { h.Dedupe = template(t, `"${body.shop}/${body.id}"`) }),
			body, "shop-04/9007199254740993", nil, ""},
		"labels": {with(func(h *Webhook) { h.Labels = map[string]*spec.Template{"shop": template(t, `"${body.shop}"`)} }),
			body, "evt_1", map[string]string{"shop": "shop-04"}, ""},
		"a member that is not there":    {with(func(h *Webhook) { h.Input = template(t, `"${body.missing}"`) }), "", "", nil, "body.missing"},
		"credentials are not an input":  {with(func(h *Webhook) { h.Input = template(t, `"${headers.authorization}"`) }), "", "", nil, "headers.authorization"},
		"a header that is not text":     {with(func(h *Webhook) { h.Input = template(t, `"${headers.x-bad}"`) }), "", "", nil, "headers.x-bad"},
		"a key that is not there":       {with(func(h *Webhook) { h.Dedupe = template(t, `"${body.event.id}"`) }), "", "", nil, "dedupe"},
		"a label that is not there":     {with(func(h *Webhook) { h.Labels = map[string]*spec.Template{"k": template(t, `"${body.k}"`)} }), "", "", nil, "labels.k"},
		"a key that is an empty string": {with(func(h *Webhook) { h.Dedupe = template(t, `"${query.none}"`) }), "", "", nil, "query.none"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st, err := mapWebhook(tc.hook, request, event, hookValues(request, event))
			if tc.refused != "" {
				if r, ok := AsRefusal(err); !ok || r.Code != CodeMapping || !strings.Contains(r.Error(), tc.refused) {
					t.Errorf("error %v, want %s naming %s", err, CodeMapping, tc.refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.wantInput, string(st.Input)); diff != "" {
				t.Errorf("input (-want +got):\n%s", diff)
			}
			if st.Key != tc.wantKey {
				t.Errorf("key %q, want %q", st.Key, tc.wantKey)
			}
			if diff := cmp.Diff(tc.wantLabels, st.Labels); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadMessage(t *testing.T) {
	t.Parallel()
	message := func(id, namespace, data string) events.Received {
		return events.Received{Message: events.Message{
			Subject: events.InSubject("orders"), ID: id, Namespace: namespace, Data: json.RawMessage(data),
		}, Stream: events.StreamIn, StreamSeq: 7}
	}
	for name, tc := range map[string]struct {
		m       events.Received
		want    Start
		refused string
	}{
		"an agent": {message("e1", "", `{"agent":"check","input":{"n":9007199254740993},"labels":{"a":"b"}}`),
			Start{Namespace: "default", Source: Source{SourceEvent, "orders"}, Key: "e1", Kind: "agent", Name: "check",
				Input: json.RawMessage(`{"n":9007199254740993}`), Labels: map[string]string{"a": "b"}}, ""},
		"a flow of another namespace": {message("e1", "team-a", `{"flow":"night"}`),
			Start{Namespace: "team-a", Source: Source{SourceEvent, "orders"}, Key: "e1", Kind: "flow", Name: "night", Input: json.RawMessage(`{}`)}, ""},
		"neither":                  {message("e1", "", `{"input":{}}`), Start{}, "exactly one"},
		"both":                     {message("e1", "", `{"agent":"a","flow":"b"}`), Start{}, "exactly one"},
		"not JSON":                 {message("e1", "", `hello`), Start{}, "body: "},
		"NUL":                      {message("e1", "", `{"agent":"a","input":"\u0000"}`), Start{}, "NUL"},
		"a namespace that is none": {message("e1", "A/B", `{"agent":"a"}`), Start{}, "namespace"},
		"without any id":           {message("", "", `{"agent":"a"}`), Start{}, "id"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := readMessage(tc.m)
			if tc.refused != "" {
				if r, ok := AsRefusal(err); !ok || !strings.Contains(r.Error(), tc.refused) {
					t.Errorf("error %v, want a refusal naming %q", err, tc.refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got, cmpopts.IgnoreFields(Start{}, "Digest")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestScheduleStart_NamesTheNominalTime(t *testing.T) {
	t.Parallel()
	def := Schedule{Namespace: "default", Name: "nightly", TimeZone: "America/New_York", Kind: "flow", Target: "night",
		Input: template(t, `{"night":"${schedule.date}","at":"${schedule.time}","nominal":"${schedule.nominal}","zone":"${schedule.timeZone}","by":"${schedule.name}"}`)}
	// 02:00 is skipped by the clock and fires at 03:00; the night is still the one
	// that 02:00 names.
	st, err := scheduleStart(def, Fire{At: noon, Nominal: "2026-03-08T02:00", Shifted: true})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"night":"2026-03-08","at":"02:00","nominal":"2026-03-08T02:00","zone":"America/New_York","by":"nightly"}`
	var a, b any
	if json.Unmarshal([]byte(want), &a) != nil || json.Unmarshal(st.Input, &b) != nil || !cmp.Equal(a, b) {
		t.Errorf("input %s, want %s", st.Input, want)
	}
	if st.Source != (Source{SourceSchedule, "nightly"}) || st.Labels[LabelSchedule] != "nightly" {
		t.Errorf("source %+v, labels %v", st.Source, st.Labels)
	}
}

func TestStartMessage(t *testing.T) {
	t.Parallel()
	d := Delivery{
		ID: "0198c2a4-0000-7000-8000-00000000000a", Namespace: "default", Source: Source{SourceWebhook, "orders"}, Key: "evt_1",
		RunID: "0198c2a4-0000-7000-8000-000000000001", Ref: events.Ref{Kind: "agent", Name: "check", Digest: "sha256:x"},
		Input: json.RawMessage(`{"n":9007199254740993,"t":"<b>"}`), AcceptedAt: noon, TraceParent: "00-aa-bb-01",
	}
	m, err := StartMessage(d)
	if err != nil {
		t.Fatal(err)
	}
	want := events.Message{
		Subject: "hf.run.0198c2a4-0000-7000-8000-000000000001.start", ID: "start:0198c2a4-0000-7000-8000-000000000001",
		Source: "/services/trigger", Type: events.TypeStartRun, About: string(d.RunID), Time: noon, Namespace: "default", TraceParent: "00-aa-bb-01",
		Data: json.RawMessage(`{"run_id":"0198c2a4-0000-7000-8000-000000000001","namespace":"default","ref":{"kind":"agent","name":"check","digest":"sha256:x"},` +
			`"input":{"n":9007199254740993,"t":"<b>"},"trigger":{"kind":"webhook","name":"orders","id":"evt_1"},"accepted_at":"2026-11-29T12:00:00Z"}`),
	}
	if diff := cmp.Diff(want, m, cmp.Transformer("text", func(r json.RawMessage) string { return string(r) })); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	d.Source, d.Key = Source{SourceAPI, "alice"}, ""
	m, err = StartMessage(d)
	if err != nil {
		t.Fatal(err)
	}
	var body events.StartRun
	if err := events.Decode(m, &body); err != nil {
		t.Fatal(err)
	}
	if want := (events.Trigger{Kind: "api", ID: string(d.ID)}); body.Trigger != want {
		t.Errorf("trigger of an API start without a key: %+v, want %+v", body.Trigger, want)
	}
}
