package model

import (
	"context"
	"fmt"

	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/runner"
)

// Providers sends each request to the adapter that the Model document names.
type Providers map[string]runner.Model

var _ runner.Model = Providers(nil)

// All returns every provider.
func All(env Env) Providers {
	return Providers{
		spec.ProviderAnthropic:       discreet{env, NewAnthropic(env)},
		spec.ProviderOpenAIChat:      discreet{env, NewChat(env)},
		spec.ProviderOpenAIResponses: discreet{env, NewResponses(env)},
	}
}

// Answer implements runner.Model.
func (p Providers) Answer(ctx context.Context, r runner.Request) (runner.Answer, error) {
	m, ok := p[r.Model.Provider]
	if !ok {
		return runner.Answer{}, &runner.ModelError{Code: "provider", Err: fmt.Errorf("no adapter for provider %q", r.Model.Provider)}
	}
	return m.Answer(ctx, r)
}
