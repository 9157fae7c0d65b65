package trigger

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-run/holdfast/internal/fault"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// HookAnswer is what a webhook's sender is told.
type HookAnswer struct {
	Accepted
	Reply json.RawMessage // set for a handshake or ping, which starts nothing
	// Filtered says that the webhook's filter kept the event out.
	Filtered bool
	// Signal says that it made a signal, which has the delivery's id, and no run.
	Signal bool
	// Items, when set, are the answers for the events of a list, one by one.
	Items  []HookAnswer
	Thanks *Thanks // how the sender wants to be answered, when it says
	// Attempt is for Log, also beside an error; nil for an unknown webhook.
	Attempt *Attempt
}

// Webhook takes one request at the door of a webhook: verify the raw bytes,
// recognise a repeat, map, accept. Nothing is written before the signature is
// good. Refusals carry the code; a bad signature is a Refusal that wraps
// ErrSignature or ErrStale.
func (s *Service) Webhook(ctx context.Context, namespace, name string, r Request) (HookAnswer, error) {
	assumed, ok := s.assumed.of(namespace, name)
	var answer HookAnswer
	var aerr error
	if ok {
		var done bool
		if answer, done, aerr = s.byAssumption(ctx, assumed, r); done {
			return answer, nil
		}
	}
	def, err := defined(namespace, name, func() (Webhook, error) { return s.definitions.Webhook(ctx, namespace, name) })
	if errors.Is(err, ErrNotFound) {
		s.metrics.request(ctx, unknownWebhook, OutcomeRejected, CodeUnknownWebhook)
		return HookAnswer{}, Refuse(CodeUnknownWebhook, "there is no webhook %q in the namespace %s", name, namespace)
	}
	if err != nil {
		return HookAnswer{}, fmt.Errorf("read webhook %s: %w", name, err)
	}
	s.assumed.note(def)
	if ok && sameVersions(assumed, def) && !errors.Is(aerr, ErrSuperseded) {
		return answer, aerr
	}
	a, err := newAttempt(def, r)
	if err != nil {
		return HookAnswer{}, err
	}
	answer, err = s.hook(ctx, def, r, a)
	answer.Attempt = a
	return answer, err
}

// provider returns what checks a webhook's requests, and with what.
func (s *Service) provider(def Webhook) (Provider, Check, error) {
	provider, ok := s.providers[def.Provider]
	if !ok {
		return nil, Check{}, fmt.Errorf("webhook %s: %w: provider %q is not known to this release", def.Name, ErrMisconfigured, def.Provider)
	}
	check := def.Check
	for i, ref := range def.Secrets {
		secret, err := s.secrets(ref)
		if err != nil {
			return nil, Check{}, fmt.Errorf("webhook %s: %w: secret %d: %w", def.Name, ErrMisconfigured, i+1, err)
		}
		check.Secrets = append(check.Secrets, secret)
	}
	return provider, check, nil
}

// hook takes a request of a known webhook and says in a what became of it.
func (s *Service) hook(ctx context.Context, def Webhook, r Request, a *Attempt) (HookAnswer, error) {
	if err := checkSize(def, r); err != nil {
		return HookAnswer{}, err
	}
	provider, check, err := s.provider(def)
	if err != nil {
		return HookAnswer{}, err
	}
	switch err := provider.Verify(r, check); {
	case errors.Is(err, ErrStale):
		return HookAnswer{}, Refuse(CodeStale, "%w", err)
	case errors.Is(err, ErrSignature):
		if _, unsigned := errors.AsType[*Unsigned](err); unsigned {
			a.End(OutcomeRejected, ReasonUnsigned)
		}
		return HookAnswer{}, Refuse(CodeSignature, "%w", err)
	case err != nil:
		return HookAnswer{}, fmt.Errorf("webhook %s: %w: %w", def.Name, ErrMisconfigured, err)
	}
	hide := redactionOf(provider, check)
	a.believe(hide)
	r.Header = withoutSecrets(r.Header, hide)
	event, err := readEvent(provider, def, r, check)
	if err != nil {
		return HookAnswer{}, err
	}
	if event.Reply != nil {
		a.End(OutcomeFiltered, ReasonHandshake)
		return HookAnswer{Reply: event.Reply}, nil
	}
	a.EventID = keptText(event.ID, MaxKey)
	return s.admit(ctx, def, r, event, a)
}

// mapWebhook turns a verified event into a start, by the webhook's templates.
func mapWebhook(def Webhook, r Request, event Event, values map[string]json.RawMessage) (Start, error) {
	mapping := func(what string, err error) error {
		return Refuse(CodeMapping, "webhook %s: %s: %w; the request does not have what the webhook's template names", def.Name, what, err)
	}
	st := Start{
		Namespace: def.Namespace,
		Source:    Source{Kind: SourceWebhook, Name: def.Name},
		Key:       event.ID,
		Digest:    events.DigestOf(r.Body),
		Kind:      def.Kind,
		Name:      def.Target,
		Aimed:     def.Aimed,
		Assumed:   def.Assumed,
		Input:     event.Body,
		Held:      def.Paused,
		Limits:    def.Limits,
		Deadline:  deadlineText(def.Deadline),
		Priority:  def.Priority,
	}
	var err error
	if def.Input != nil {
		if st.Input, err = def.Input.Render(values); err != nil {
			return Start{}, mapping("input", err)
		}
	}
	if def.Dedupe != nil {
		if st.Key, err = def.Dedupe.Text(values); err != nil {
			return Start{}, mapping("dedupe", err)
		}
		if st.Key == "" {
			return Start{}, mapping("dedupe", errors.New("the key is empty"))
		}
	}
	if err := CheckText(st.Key); err != nil {
		return Start{}, Refuse(CodeInvalidText, "the delivery's id: %w", err)
	}
	for key, template := range def.Labels {
		value, err := template.Text(values)
		if err != nil {
			return Start{}, mapping("labels."+key, err)
		}
		if st.Labels == nil {
			st.Labels = map[string]string{}
		}
		st.Labels[key] = value
	}
	return st, nil
}

// credentials never become part of an input.
var credentials = map[string]bool{"authorization": true, "proxy-authorization": true, "cookie": true}

// textObject is a JSON object of the first value of each name. A value that is
// not text is left out: nothing a template could carry on.
func textObject(values map[string][]string, name func(string) string) json.RawMessage {
	object := map[string]string{}
	for k, v := range values {
		k = name(k)
		if len(v) == 0 || credentials[k] || CheckText(k) != nil || CheckText(v[0]) != nil {
			continue
		}
		object[k] = v[0]
	}
	return events.AppendObject(nil, object)
}

// APIStart is a request of the API for a run.
type APIStart struct {
	Namespace, Principal string
	Kind, Name           string // events.KindAgent or events.KindFlow
	Key                  string // Idempotency-Key; empty for none
	Body                 []byte // {"input": ..., "labels": {...}}, as it came
}

// API takes a start of the API.
func (s *Service) API(ctx context.Context, a APIStart) (Accepted, error) {
	body := a.Body
	if len(bytes.TrimSpace(body)) == 0 {
		body = []byte("{}")
	}
	if err := CheckJSON("body", body); err != nil {
		return Accepted{}, err
	}
	var request struct {
		Input    json.RawMessage   `json:"input"`
		Labels   map[string]string `json:"labels"`
		Callback *events.Callback  `json:"callback"`
		Deadline string            `json:"deadline"`
		Priority string            `json:"priority"`
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&request); err != nil {
		return Accepted{}, Refuse(CodeInvalidJSON, `body: %w; send {"input": ..., "labels": {...}}`, err)
	}
	callback, err := callbackURL(request.Callback)
	if err != nil {
		return Accepted{}, err
	}
	if request.Input == nil {
		request.Input = json.RawMessage("{}")
	}
	// Equal meanings are the same request: a client may spell a repeat otherwise.
	canonical, err := events.Canonical(body)
	if err != nil {
		return Accepted{}, Refuse(CodeInvalidText, "body: %w", err)
	}
	return s.Accept(ctx, Start{
		Namespace: a.Namespace,
		Source:    Source{Kind: SourceAPI, Name: a.Principal},
		Key:       a.Key,
		Digest:    events.DigestOf(fmt.Appendf(nil, "%s/%s\n%s", a.Kind, a.Name, canonical)),
		Strict:    true,
		Kind:      a.Kind,
		Name:      a.Name,
		Input:     request.Input,
		Labels:    request.Labels,
		Callback:  callback,
		Deadline:  request.Deadline,
		Priority:  request.Priority,
		Principal: a.Principal,
	})
}

// Message takes a message of hf.in.<name>. It returns nil once the start is
// committed, or was before; then the message may be acknowledged. What can never
// start a run is a fault.Terminal with the Refusal's code.
func (s *Service) Message(ctx context.Context, m events.Received) error {
	st, err := readMessage(m)
	if err == nil {
		_, err = s.Accept(ctx, st)
	}
	if r, ok := AsRefusal(err); ok {
		return fault.Terminal(r.Code, r)
	}
	return err
}

func readMessage(m events.Received) (Start, error) {
	namespace := messageNamespace(m)
	if !spec.ValidName(namespace) {
		return Start{}, Refuse(CodeInvalidText, "ce-namespace %.70q is not a namespace", namespace)
	}
	if err := CheckJSON("body", m.Data); err != nil {
		return Start{}, err
	}
	var request events.StartRequest
	if err := events.Decode(m.Message, &request); err != nil {
		return Start{}, Refuse(CodeInvalidJSON, "body: %w", err)
	}
	if (request.Agent == "") == (request.Flow == "") {
		return Start{}, Refuse(CodeInvalidJSON, "body: name exactly one of agent and flow")
	}
	callback, err := callbackURL(request.Callback)
	if err != nil {
		return Start{}, err
	}
	kind, name := events.KindAgent, request.Agent
	if request.Flow != "" {
		kind, name = events.KindFlow, request.Flow
	}
	if request.Input == nil {
		request.Input = json.RawMessage("{}")
	}
	// The bus gives every message an id: ce-id, else Nats-Msg-Id, else one of the
	// stream's own.
	if err := CheckText(m.ID); err != nil || m.ID == "" {
		return Start{}, Refuse(CodeInvalidText, "ce-id %.70q is not an id", m.ID)
	}
	return Start{
		Namespace: namespace,
		Source:    Source{Kind: SourceEvent, Name: messageName(m)},
		Key:       m.ID,
		Digest:    events.DigestOf(m.Data),
		Kind:      kind,
		Name:      name,
		Input:     request.Input,
		Labels:    request.Labels,
		Callback:  callback,
		Deadline:  request.Deadline,
		Priority:  request.Priority,
	}, nil
}

func messageName(m events.Received) string { return strings.TrimPrefix(m.Subject, "hf.in.") }

func messageNamespace(m events.Received) string {
	if m.Namespace == "" {
		return DefaultNamespace
	}
	return m.Namespace
}

// RejectMessage keeps a message of hf.in.<name> that can never start a run, with
// the reason.
func (s *Service) RejectMessage(ctx context.Context, m events.Received, code string, cause error) error {
	id := m.ID
	if id == "" || CheckText(id) != nil {
		id = fmt.Sprintf("%s/%d", m.Stream, m.StreamSeq)
	}
	namespace := messageNamespace(m)
	if !spec.ValidName(namespace) {
		namespace = DefaultNamespace
	}
	detail := "unknown"
	if cause != nil {
		detail = strings.ToValidUTF8(strings.ReplaceAll(cause.Error(), "\x00", "\uFFFD"), "\uFFFD")
	}
	return s.store.Reject(ctx, Rejection{
		Namespace: namespace,
		Source:    Source{Kind: SourceEvent, Name: messageName(m)},
		MessageID: deliveryKey(id),
		Code:      code,
		Detail:    detail,
		Data:      m.Data,
	})
}
