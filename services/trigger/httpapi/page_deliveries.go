package httpapi

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/services/trigger"
	"github.com/holdfast-run/holdfast/web"
)

// deliveryView is a delivery in a list.
type deliveryView struct {
	ID, Outcome, From, Event, Came string
	At                             time.Time
	RunID, ReplayOf                string
	Took                           string
	Count                          int64
}

type deliveriesPage struct {
	web.Frame
	Rows                        []deliveryView
	Webhook, Outcome, From, To  string // as typed
	Outcomes                    []string
	Next, Problem               string
	Operator, Filtered, Replays bool
}

func deliveryViews(entries []trigger.Entry) (out []deliveryView) {
	for _, e := range entries {
		out = append(out, deliveryViewOf(deliveryBody(e)))
	}
	return out
}

func deliveryViewOf(d delivery) deliveryView {
	v := deliveryView{ID: d.ID, Outcome: d.Outcome, From: d.Source + " " + d.SourceName, At: d.ReceivedAt, RunID: d.RunID, ReplayOf: d.ReplayOf, Event: d.Key, Count: 1}
	if r := d.Request; r != nil {
		v.Event, v.Count, v.Took = cmp.Or(r.EventID, d.Key), r.Count, (time.Duration(r.TookUs) * time.Microsecond).Round(100*time.Microsecond).String()
	}
	switch d.Outcome {
	case trigger.OutcomeAccepted:
		v.Came = d.Name
	case trigger.OutcomeDuplicate:
		v.Came = "the same as one before"
	case trigger.OutcomeHeld:
		v.Came = "waits until its webhook goes on"
	case trigger.OutcomeSignalled:
		v.Came = "signalled a run that waits, or will"
	default:
		v.Came = d.Reason
		if d.Detail != "" {
			v.Came = d.Detail
		}
	}
	return v
}

// deliveriesPage answers GET /ui/triggers/deliveries.
func (a *api) deliveriesPage(w http.ResponseWriter, r *http.Request) error {
	who, _ := authn.FromContext(r.Context())
	q := r.URL.Query()
	data := deliveriesPage{Frame: door.FrameOf(r, "Deliveries"), Webhook: q.Get("webhook"), Outcome: q.Get("outcome"), From: q.Get("from"), To: q.Get("to"),
		Outcomes: trigger.Outcomes(), Operator: who.Role.Allows(authn.Operator)}
	f, err := entryFilter(data.Webhook, data.Outcome, data.From, data.To)
	if err != nil {
		data.Problem = err.Error()
		return web.Write(w, http.StatusUnprocessableEntity, "deliveries", data)
	}
	data.Filtered = f != trigger.EntryFilter{}
	data.Replays = data.Operator && f.Webhook != "" && !f.Since.IsZero()
	var before idCursor
	if ok, err := door.DecodeCursor(q.Get("cursor"), &before); err != nil {
		return err
	} else if ok && !canonicalUUID(before.ID) {
		return door.Error(http.StatusBadRequest, door.CodeInvalidCursor, "the cursor is not one of ours; begin without it")
	}
	found, err := a.svc.Entries(r.Context(), who.Namespace, f, trigger.DeliveryID(before.ID), pageDeliveries+1)
	if err != nil {
		return err
	}
	cut := door.NewPage(found, pageDeliveries, func(e trigger.Entry) any { return idCursor{string(e.ID)} })
	data.Rows = deliveryViews(cut.Items)
	if cut.NextCursor != "" {
		next := url.Values{"cursor": {cut.NextCursor}}
		for name, value := range map[string]string{"webhook": data.Webhook, "outcome": data.Outcome, "from": data.From, "to": data.To} {
			if value != "" {
				next.Set(name, value)
			}
		}
		data.Next = deliveriesPath + "?" + next.Encode()
	}
	return web.Write(w, http.StatusOK, "deliveries", data)
}

func entryFilter(webhook, outcome, from, to string) (f trigger.EntryFilter, err error) {
	f = trigger.EntryFilter{Webhook: webhook, Outcome: outcome}
	if len(webhook) > 62 || trigger.CheckText(webhook) != nil {
		return f, fmt.Errorf("%.70q is not the name of a webhook", webhook)
	}
	if outcome != "" && !slices.Contains(trigger.Outcomes(), outcome) {
		return f, fmt.Errorf("there is no outcome %.40q; choose one of the list", outcome)
	}
	if f.Since, err = utcOf("From", from); err == nil {
		f.Until, err = utcOf("To", to)
	}
	if err == nil && !f.Since.IsZero() && !f.Until.IsZero() && !f.Since.Before(f.Until) {
		err = fmt.Errorf("From is not before To")
	}
	return f, err
}

// utcOf reads a time that somebody typed, in UTC; the zero time when there is none.
func utcOf(name, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05", time.RFC3339, time.DateOnly} {
		if t, err := time.ParseInLocation(layout, text, time.UTC); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("%s is not a time like 2026-03-05T02:14", name)
}

type deliveryPage struct {
	web.Frame
	V                 deliveryView
	D                 delivery
	State             string
	Headers, Query    []headView
	Body, Input       string
	Replay            bool   // it can be
	NoReplay          string // why not
	Ask, Force        bool
	Key, Problem, Did string
	DidRun, DidID     string
}

type headView struct{ Name, Value string }

// deliveryPage answers GET /ui/triggers/deliveries/{id}.
func (a *api) deliveryPage(w http.ResponseWriter, r *http.Request) error {
	who, _ := authn.FromContext(r.Context())
	return a.showDelivery(w, r, who, http.StatusOK, deliveryPage{})
}

func (a *api) showDelivery(w http.ResponseWriter, r *http.Request, who authn.Principal, status int, data deliveryPage) error {
	id := r.PathValue("id")
	if !canonicalUUID(id) {
		return noDelivery(id, who)
	}
	e, err := a.svc.Entry(r.Context(), who.Namespace, trigger.DeliveryID(id))
	if err != nil {
		return err
	}
	data.D = deliveryBody(e)
	data.Frame, data.V = door.FrameOf(r, "Delivery"), deliveryViewOf(data.D)
	switch d := data.D; {
	case d.AcceptedAt == nil:
	case d.LandedAt != nil:
		data.State = "the runner has it"
	case d.Held:
		data.State = "held while its webhook is paused"
	default:
		data.State = "accepted, on its way to the runner"
	}
	data.Input = indentedJSON(data.D.Input)
	if q := data.D.Request; q != nil {
		data.Headers, data.Query = headViews(q.Headers), headViews(q.Query)
		data.Body = q.Body
		if len(q.BodyBase64) > 0 {
			data.Body = fmt.Sprintf("%q", q.BodyBase64)
		}
		data.Replay = who.Role.Allows(authn.Operator) && (q.BodyKept || data.D.ReplayOf != "")
		if !q.BodyKept && q.BodyBytes > 0 && data.D.ReplayOf == "" {
			data.NoReplay = "Its body was not kept: only what came with a good signature is, up to 1 MiB."
		}
	}
	if data.Key == "" {
		data.Key = rand.Text()
	}
	return web.Write(w, status, "delivery", data)
}

func headViews(m map[string][]string) (out []headView) {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		for _, v := range m[name] {
			out = append(out, headView{name, v})
		}
	}
	return out
}

func indentedJSON(raw json.RawMessage) string {
	var b bytes.Buffer
	if len(raw) == 0 || json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}

// replayForm answers POST /ui/triggers/deliveries/{id}: it asks, and with sure it
// takes the request again.
func (a *api) replayForm(w http.ResponseWriter, r *http.Request) error {
	who, _ := authn.FromContext(r.Context())
	typed, err := door.Form(r)
	if err != nil {
		return err
	}
	data := deliveryPage{Force: typed.Get("force") == "yes", Key: typed.Get("key"), Ask: true}
	if typed.Get("sure") != "yes" {
		return a.showDelivery(w, r, who, http.StatusOK, data)
	}
	if !canonicalUUID(r.PathValue("id")) {
		return noDelivery(r.PathValue("id"), who)
	}
	key, err := idempotencyKey(data.Key)
	if err != nil {
		return err
	}
	did, err := a.svc.Replay(r.Context(), trigger.DeliveryID(r.PathValue("id")), trigger.Replay{Namespace: who.Namespace, Principal: who.Name, Force: data.Force, Key: key})
	if refused, ok := trigger.AsRefusal(err); ok {
		data.Ask, data.Problem = false, refused.Message
		return a.showDelivery(w, r, who, door.From(problem(err)).Status, data)
	}
	if err != nil {
		return err
	}
	data.Ask, data.Did, data.DidRun, data.DidID = false, didText(replayedBody(did)), string(did.Accepted.RunID), string(did.ID)
	return a.showDelivery(w, r, who, http.StatusOK, data)
}

func didText(d replayed) string {
	switch d.Outcome {
	case trigger.OutcomeAccepted:
		return "It was taken again and started a run."
	case trigger.OutcomeDuplicate:
		return "It has its run already; no other was started."
	case trigger.OutcomeFiltered:
		return "It was taken again and filtered: " + cmp.Or(d.Detail, d.Reason) + "."
	case trigger.OutcomeHeld:
		return "It was taken again and waits until its webhook goes on."
	case trigger.OutcomeSignalled:
		return "It was taken again and signalled a run."
	}
	return "It was refused again: " + cmp.Or(d.Detail, d.Reason) + "."
}

type replayManyPage struct {
	web.Frame
	Webhook, Outcome, From, To, After, Key string
	Force, Done                            bool
	Items                                  []replayed
	Texts                                  []string
	Next                                   string // of more
}

// replayManyForm answers POST /ui/triggers/deliveries: which would be taken again,
// and with sure what became of each.
func (a *api) replayManyForm(w http.ResponseWriter, r *http.Request) error {
	who, _ := authn.FromContext(r.Context())
	typed, err := door.Form(r)
	if err != nil {
		return err
	}
	data := replayManyPage{Frame: door.FrameOf(r, "Replay deliveries"), Webhook: typed.Get("webhook"), Outcome: cmp.Or(typed.Get("outcome"), trigger.OutcomeRejected),
		From: typed.Get("from"), To: typed.Get("to"), After: typed.Get("after"), Key: cmp.Or(typed.Get("key"), rand.Text()), Force: typed.Get("force") == "yes", Done: typed.Get("sure") == "yes"}
	f, err := entryFilter(data.Webhook, data.Outcome, data.From, data.To)
	switch {
	case err != nil:
	case f.Webhook == "" || f.Since.IsZero():
		err = fmt.Errorf("choose a webhook and a time from which on; nothing was replayed")
	case data.After != "" && !canonicalUUID(data.After):
		err = fmt.Errorf("this form is not the one of the page; nothing was replayed")
	}
	if err != nil {
		return door.Error(http.StatusUnprocessableEntity, door.CodeInvalidInput, err.Error())
	}
	if f.Until.IsZero() {
		f.Until = a.now().UTC()
		data.To = f.Until.Format(time.RFC3339Nano) // what is confirmed is what was shown
	}
	key, err := idempotencyKey(data.Key)
	if err != nil {
		return err
	}
	done, err := a.svc.ReplayRange(r.Context(), trigger.ReplayFilter{Webhook: f.Webhook, Outcome: data.Outcome, From: f.Since, To: f.Until, After: trigger.DeliveryID(data.After)},
		trigger.Replay{Namespace: who.Namespace, Principal: who.Name, Force: data.Force, Key: key}, 100, !data.Done)
	if err != nil {
		return err
	}
	data.Next = string(done.After)
	for _, d := range done.Items {
		body := replayedBody(d)
		data.Items = append(data.Items, body)
		data.Texts = append(data.Texts, didText(body))
	}
	return web.Write(w, http.StatusOK, "replay", data)
}
