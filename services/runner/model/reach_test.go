package model_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/internal/scriptmodel"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/runner"
	"github.com/holdfast-run/holdfast/services/runner/model"
)

func TestBaseURL_EveryForm(t *testing.T) {
	t.Parallel()
	m := scriptmodel.New(scriptmodel.Config{Alone: true, Script: func(scriptmodel.Request) (scriptmodel.Answer, error) {
		return scriptmodel.Answer{Parts: []scriptmodel.Part{scriptmodel.Text("yes")}}, nil
	}})
	mux := http.NewServeMux() // only exactly these paths, below no prefix and below one
	for _, path := range []string{"/v1/messages", "/v1/chat/completions", "/v1/responses"} {
		mux.Handle("POST "+path, m)
		mux.Handle("POST /gate%20way"+path, http.StripPrefix("/gate way", m))
	}
	server := httptest.NewServer(mux)
	defer server.Close()
	for provider, forms := range map[string][]string{
		spec.ProviderAnthropic:       {"", "/", "/v1", "/v1/", "/gate%20way", "/gate%20way/", "/gate%20way/v1", "/gate%20way/v1/"},
		spec.ProviderOpenAIChat:      {"", "/", "/v1", "/v1/", "/gate%20way/v1", "/gate%20way/v1/"},
		spec.ProviderOpenAIResponses: {"", "/", "/v1", "/v1/", "/gate%20way/v1", "/gate%20way/v1/"},
	} {
		for _, form := range forms {
			r := request(t, server.URL+form)
			def := *r.Model
			def.Provider, r.Model = provider, &def
			if a, err := adapter().Answer(t.Context(), r); err != nil || a.Text != "yes" {
				t.Errorf("%s with baseURL %q: %q, %v", provider, form, a.Text, err)
			}
		}
	}
}

// A variable is read when it is used, so what makes no sense is told then, once,
// without its value.
func TestBaseURL_OfAVariableThatMakesNoSense(t *testing.T) {
	t.Parallel()
	all := model.All(model.Env{LookupEnv: func(string) (string, bool) { return "https://h/v1?key=hidden", true }, ReadFile: os.ReadFile, Egress: onLoopback()})
	for _, provider := range []string{spec.ProviderAnthropic, spec.ProviderOpenAIChat, spec.ProviderOpenAIResponses} {
		r := request(t, "http://h")
		def := *r.Model
		def.Provider, def.BaseURL, r.Model = provider, spec.Setting{Env: "BASE"}, &def
		_, err := all.Answer(t.Context(), r)
		e, ok := errors.AsType[*runner.ModelError](err)
		if !ok || e.Code != "base_url" || e.Retry || !strings.Contains(e.Error(), "must not hold a query") || strings.Contains(e.Error(), "hidden") {
			t.Errorf("%s: %v", provider, err)
		}
	}
}
