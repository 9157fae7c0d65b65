package kind

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/internal/egress"
	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/tools"
)

// Headers of a request to a tool service.
const (
	headerCallID    = "Holdfast-Call-Id"
	headerRunID     = "Holdfast-Run-Id"
	headerNamespace = "Holdfast-Namespace"
	headerDeadline  = "Holdfast-Deadline" // RFC 3339, when nobody waits any more
	headerKeyName   = "Idempotency-Key"   // not with reads
	headerTrace     = "traceparent"
)

// Headers of a reply that is an error.
// Source: NATS ADR-32, "Service API", section "Errors".
const (
	headerError     = "Nats-Service-Error"
	headerErrorCode = "Nats-Service-Error-Code"
)

// NATS runs a tool that a program answers on a NATS subject.
type NATS struct{ bus tools.Requester }

var _ tools.Kind = (*NATS)(nil)

// Name is "nats".
func (k *NATS) Name() string { return "nats" }

// Runs reports whether the definition has a nats part.
func (k *NATS) Runs(t *spec.Tool) bool { return t.NATS != nil }

// Act sends the arguments and waits for the reply.
//
//	reply without an error           happened
//	error with a code 400 to 499     refused; 408, 409: nobody knows; 425, 429: not sent
//	error with another code          nobody knows
//	nobody listens, not connected    not sent
//	no reply in time                 nobody knows
func (k *NATS) Act(ctx context.Context, r tools.Request) tools.Outcome {
	subject := r.Tool.NATS.RequestSubject()
	header := map[string][]string{
		headerCallID: {string(r.CallID)}, headerNamespace: {r.Namespace}, "Content-Type": {"application/json"},
	}
	if r.RunID != "" {
		header[headerRunID] = []string{string(r.RunID)}
	}
	if r.Class != tools.ClassRead {
		header[headerKeyName] = []string{headerKey(r.Key)}
	}
	if deadline, ok := ctx.Deadline(); ok {
		header[headerDeadline] = []string{deadline.UTC().Format(time.RFC3339Nano)}
	}
	if tp := telemetry.TraceParent(ctx); tp != "" {
		header[headerTrace] = []string{tp}
	}
	receipt := tools.Receipt{RequestDigest: string(events.DigestOf(fmt.Appendf(nil, "nats %s\n%s", subject, r.Args)))}
	replyHeader, reply, err := k.bus.Request(ctx, subject, header, r.Args)
	out := k.outcome(ctx, r, subject, replyHeader, reply, err)
	receipt.Bytes = int64(len(reply))
	out.Receipt = receipt
	return out
}

func (k *NATS) outcome(ctx context.Context, r tools.Request, subject string, header map[string][]string, reply []byte, err error) tools.Outcome {
	problem := func(v tools.Verdict, code, text string) tools.Outcome {
		return tools.Outcome{Verdict: v, Error: &events.Problem{Code: code, Message: clean(text, maxProblemBytes)}}
	}
	switch {
	case errors.Is(err, tools.ErrNobodyAnswers):
		return problem(tools.NotSent, "unreachable", "nothing was sent: nobody answers on "+subject)
	case errors.Is(err, tools.ErrNotConnected):
		return problem(tools.NotSent, "unreachable", "nothing was sent: "+err.Error())
	case err != nil && ctx.Err() != nil:
		return problem(tools.Ambiguous, "timeout", "no answer in time; it may have happened")
	case err != nil:
		return problem(tools.Ambiguous, "no_answer", "no answer; it may have happened: "+err.Error())
	}
	if code := get(header, headerErrorCode); code != "" || get(header, headerError) != "" {
		text := get(header, headerError)
		if len(reply) > 0 && isText("", reply) {
			text += ": " + string(reply)
		}
		switch {
		case code == "425" || code == "429":
			return problem(tools.NotSent, "service_"+code, text)
		case len(code) == 3 && code[0] == '4' && code != "408" && code != "409":
			return problem(tools.Refused, "service_"+clean(code, 20), text)
		}
		return problem(tools.Ambiguous, "service_error", strings.TrimSpace(clean(code, 20)+" "+text)+"; it may have happened")
	}
	if len(reply) == 0 {
		return tools.Outcome{Verdict: tools.Happened, Result: json.RawMessage("null")}
	}
	keep := &keeper{r: r}
	out := tools.Outcome{Verdict: tools.Happened, Result: result(egress.Response{
		Status: 200, Header: map[string][]string{"Content-Type": {get(header, "Content-Type")}}, Body: reply,
	}, scrubber{}, outputLimit(r.Tool, maxResultBytes), keep)}
	out.Artifacts = keep.list
	return out
}

// get reads a header in any spelling.
func get(header map[string][]string, name string) string {
	for k, v := range header {
		if strings.EqualFold(k, name) && len(v) > 0 {
			return v[0]
		}
	}
	return ""
}

// Metadata keys with which an endpoint of a NATS micro service says that it is
// a tool.
const (
	MetadataInputSchema = "holdfast.input_schema" // JSON Schema of the request, as text
	MetadataDescription = "holdfast.description"  // what the model reads; default the service's
)

// gatherFor is how long micro services have to answer.
const gatherFor = 1500 * time.Millisecond

// NATS implements tools.Offers: endpoints without an input schema are left out.
func (o *Offers) NATS(ctx context.Context) ([]tools.Offer, error) {
	ctx, cancel := context.WithTimeout(ctx, gatherFor)
	defer cancel()
	replies, err := o.Bus.Gather(ctx, "$SRV.INFO")
	if err != nil {
		return nil, unready(codeUnreachable, fmt.Errorf("ask micro services: %w", err))
	}
	var out []tools.Offer
	seen := map[string]bool{}
	for _, reply := range replies {
		var info struct {
			Name        string `json:"name"`
			Description string `json:"description"`
			Endpoints   []struct {
				Name     string            `json:"name"`
				Subject  string            `json:"subject"`
				Metadata map[string]string `json:"metadata"`
			} `json:"endpoints"`
		}
		if json.Unmarshal(reply, &info) != nil {
			continue
		}
		for _, e := range info.Endpoints {
			schema := json.RawMessage(e.Metadata[MetadataInputSchema])
			if seen[e.Subject] || len(schema) == 0 || !storable(schema) {
				continue // another instance of the same service, or no tool
			}
			seen[e.Subject] = true
			description := e.Metadata[MetadataDescription]
			if description == "" {
				description = info.Description
			}
			out = append(out, tools.Offer{Service: info.Name, Name: e.Name, Subject: e.Subject, Description: description, InputSchema: schema})
		}
	}
	return out, nil
}
