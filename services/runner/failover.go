package runner

import (
	"context"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// NamedModel is a model with the name of its document.
type NamedModel struct {
	Name string
	*spec.Model
}

// Another model goes on after so many failures of one, or at once when the
// provider asks to wait longer than this.
const (
	failoverAfter = 2
	failoverWait  = 10 * time.Second
)

// pinFallbacks resolves the fallbacks of a run's model. A fallback's own are not
// looked at.
func (s *Service) pinFallbacks(ctx context.Context, namespace string, model events.Ref) ([]events.Ref, error) {
	m, err := s.defs.Model(ctx, namespace, model.Digest)
	if err != nil {
		return nil, err
	}
	var out []events.Ref
	for _, name := range m.Fallback {
		ref, err := s.resolve(ctx, namespace, kindModel, name)
		if err != nil {
			return nil, err
		}
		out = append(out, ref)
	}
	return out, nil
}

// answering is the model that a run's next call goes to.
func (p *Plan) answering(s *State) NamedModel {
	for _, m := range p.Fallbacks {
		if m.Name == s.ModelName {
			return m
		}
	}
	return NamedModel{Name: p.ModelName, Model: p.Model}
}

// prices are what the model costs; nil when it is not known.
func (m NamedModel) prices() *spec.Prices {
	if m.Model == nil {
		return nil
	}
	return m.Prices
}

// fallback names the model that makes the failed call instead, or is empty. A
// run only moves on in the list and never back: each move loses the provider's
// cache of the history.
func (p *Plan) fallback(s *State, e *ModelError, attempt int) string {
	switch e.Code {
	case CodeContextWindow, codeSummary, "transcript", "invalid_request_error", "provider":
		return "" // the request is at fault, not who was asked
	}
	if e.Retry && attempt < failoverAfter && e.RetryAfter <= failoverWait {
		return ""
	}
	passed := s.ModelName == ""
	for _, m := range p.Fallbacks {
		if passed && s.takenBy(p, m) {
			return m.Name
		}
		passed = passed || m.Name == s.ModelName
	}
	return ""
}

// takenBy reports whether a model can go on with the history: no answer is in it, or
// all of it comes from models behind the same API and nothing of it is bound to
// the model that said it.
func (s *State) takenBy(p *Plan, m NamedModel) bool {
	for i := s.cut(); i < len(s.Turns); i++ {
		a := s.Turns[i].Answer
		if unsaid(a) {
			continue
		}
		if a.Bound || s.providerOf(p, i) != m.Provider {
			return false
		}
	}
	return !s.pausedAfter(len(s.Turns))
}
