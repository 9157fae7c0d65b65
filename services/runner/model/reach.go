package model

import (
	"fmt"
	"net/http"

	"github.com/holdfast-run/holdfast/internal/egress"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/runner"
)

// client is what the requests of a model go over: guarded, with the
// definition's TLS, whose secrets are read anew for each request.
func (e Env) client(m *spec.Model) (*http.Client, error) {
	reach, err := egress.ReachOf(m.TLS, m.AllowHosts, e.LookupEnv, e.ReadFile)
	if err != nil {
		return nil, err
	}
	t, err := e.Egress.Transport(reach)
	if err != nil {
		return nil, fmt.Errorf("reach model: %w", err)
	}
	return egress.Via(bounded{t}), nil
}

// baseURL is where m's provider is asked: usual unless the definition or the
// variable that it names says otherwise.
func (e Env) baseURL(m *spec.Model, usual string) (string, error) {
	text := m.BaseURL.Resolve(e.LookupEnv)
	if text == "" {
		text = usual
	}
	base, err := m.Endpoint(text)
	if err != nil {
		return "", &runner.ModelError{Code: "base_url", Err: fmt.Errorf("baseURL: %w", err)}
	}
	return base, nil
}
