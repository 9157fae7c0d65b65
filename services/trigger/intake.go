package trigger

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// ReasonFilter is the log's word for a request that the webhook's filter keeps out.
const ReasonFilter = "filter"

// checkSize refuses a body over the webhook's own limit.
func checkSize(def Webhook, r Request) error {
	if def.MaxBody > 0 && int64(len(r.Body)) > def.MaxBody {
		return Refuse(CodeTooLarge, "the body has %d bytes, the limit of this webhook is %d", len(r.Body), def.MaxBody)
	}
	return nil
}

// readEvent reads a verified request, by the webhook's word on empty bodies.
func readEvent(p Provider, def Webhook, r Request, c Check) (Event, error) {
	if len(bytes.TrimSpace(r.Body)) == 0 {
		switch def.EmptyBody {
		case spec.EmptyBodyObject:
			r.Body = []byte("{}")
		case spec.EmptyBodyRefuse:
			return Event{}, CheckJSON("body", nil)
		}
	}
	return p.Event(r, c)
}

// withoutSecrets leaves out the headers that hold what proves the sender: no
// template and no input may carry them on.
func withoutSecrets(header http.Header, h redaction) http.Header {
	kept := header
	for name, values := range header {
		if !slices.ContainsFunc(values, func(value string) bool { return h.secret(name, value) }) {
			continue
		}
		if len(kept) == len(header) {
			kept = header.Clone()
		}
		delete(kept, name)
	}
	return kept
}

// hookValues are what the templates and the filter of a webhook read.
func hookValues(r Request, event Event) map[string]json.RawMessage {
	return map[string]json.RawMessage{
		"body":    event.Body,
		"headers": textObject(r.Header, strings.ToLower),
		"query":   textObject(r.Query, func(s string) string { return s }),
	}
}

// passes asks the webhook's filter. What it cannot decide passes, and a says so:
// an event that starts a run too many is seen, one that starts none is not.
func (s *Service) passes(ctx context.Context, def Webhook, values map[string]json.RawMessage, a *Attempt) bool {
	if def.Filter == nil {
		return true
	}
	pass, err := def.Filter.Eval(values)
	if err != nil {
		s.log.WarnContext(ctx, "filter of a webhook could not be decided; the run starts", telemetry.KeyNamespace, def.Namespace,
			"webhook", def.Name, telemetry.KeyErr, err)
		a.Detail = keptText("the filter could not be decided, so the run started: "+err.Error(), maxKeptDetail)
		return true
	}
	return pass
}

// admit takes a verified event, also a replayed one; of a list each item, unless
// the webhook wants it whole.
func (s *Service) admit(ctx context.Context, def Webhook, r Request, event Event, a *Attempt) (HookAnswer, error) {
	if a.ReplayOf != "" {
		def.Limits = Limits{} // a person asked for it
	}
	if event.Items != nil && def.Batch == spec.BatchItem {
		if def.Assumed { // no one statement stores them all
			return HookAnswer{}, ErrSuperseded
		}
		return s.admitItems(ctx, def, r, event, a)
	}
	answer, key, err := s.admitOne(ctx, def, r, event, a, a, a.rekey)
	answer.Thanks = event.Thanks
	switch {
	case answer.Filtered:
		a.End(OutcomeFiltered, ReasonFilter)
	case answer.Repeat:
		a.repeats(answer.Accepted, key)
	}
	return answer, err
}

// admitOne filters, maps and accepts one event of a request. with, when set, is
// the entry that is logged by the delivery's own statement; rekey, when set,
// changes the key, which is returned.
func (s *Service) admitOne(ctx context.Context, def Webhook, r Request, event Event, a, with *Attempt, rekey func(string) string) (HookAnswer, string, error) {
	values := hookValues(r, event)
	if !s.passes(ctx, def, values, a) {
		return HookAnswer{Filtered: true}, "", nil
	}
	st, err := mapWebhook(def, r, event, values)
	if err != nil {
		return HookAnswer{}, "", err
	}
	st.Attempt = with
	if rekey != nil {
		st.Key = rekey(st.Key)
	}
	if def.Signal != nil {
		return s.admitSignal(ctx, def, st, values)
	}
	accepted, err := s.Accept(ctx, st)
	return HookAnswer{Accepted: accepted}, st.Key, err
}

// admitItems takes the events of a list one by one, each with a run of its own.
// One that is refused keeps no other out: the answer is its refusal after all
// have been tried, and the sender's retry finds the others as repeats. A failure
// ends the work for now.
func (s *Service) admitItems(ctx context.Context, def Webhook, r Request, event Event, a *Attempt) (HookAnswer, error) {
	all := HookAnswer{Items: []HookAnswer{}, Thanks: event.Thanks}
	var refusal *Refusal
	for i, item := range event.Items {
		answer, _, err := s.admitOne(ctx, def, r, item, a, nil, a.rekeyItem(i))
		if err == nil {
			all.Items = append(all.Items, answer)
			continue
		}
		why, refused := AsRefusal(err)
		if !refused {
			return HookAnswer{}, fmt.Errorf("item %d of %d: %w", i, len(event.Items), err)
		}
		if refusal == nil {
			refusal = why.at(i)
		}
		if why.After > 0 {
			break // the limit holds for the rest too
		}
	}
	if refusal != nil {
		refusal.Message = fmt.Sprintf("%d of %d items were taken; %s", len(all.Items), len(event.Items), refusal.Message)
		return HookAnswer{}, refusal
	}
	a.takesItems(all.Items)
	return all, nil
}

// rekeyItem is rekey for one item of a list: items that get a key of the replay
// get different ones.
func (a *Attempt) rekeyItem(i int) func(string) string {
	if a.rekey == nil {
		return nil
	}
	return func(key string) string {
		changed := a.rekey(key)
		if changed == key {
			return key
		}
		return changed + "/" + strconv.Itoa(i)
	}
}

// takesItems ends an attempt by what became of its items; its run is the first.
func (a *Attempt) takesItems(items []HookAnswer) {
	outcome := OutcomeFiltered
	for _, item := range items {
		switch {
		case item.Filtered:
			continue
		case a.DeliveryID == "":
			a.RunID, a.DeliveryID = item.RunID, item.DeliveryID
		}
		if !item.Repeat && item.Signal {
			outcome = OutcomeSignalled
		} else if !item.Repeat {
			outcome = OutcomeAccepted
		} else if outcome == OutcomeFiltered {
			outcome = OutcomeDuplicate
		}
	}
	reason := ""
	if outcome == OutcomeFiltered {
		reason = ReasonFilter
	}
	a.End(outcome, reason)
}

// at is the refusal of an item of a list.
func (r *Refusal) at(i int) *Refusal {
	item := *r
	item.Message = fmt.Sprintf("item %d: %s", i, r.Message)
	return &item
}
