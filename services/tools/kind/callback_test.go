package kind_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/egress"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/tools"
	"github.com/holdfast-run/holdfast/services/tools/kind"
)

// endings plays the runs.
type endings struct{}

func (endings) EndOf(context.Context, string, events.RunID) (string, time.Time, error) {
	return "", time.Time{}, tools.ErrNotFound
}

func (endings) Ended(_ context.Context, namespace string, run events.RunID) (events.RunEnded, error) {
	return events.RunEnded{Type: events.TypeRunEnded, Data: events.RunEndedData{RunID: run, Namespace: namespace, Status: "failed", Flow: "night"}}, nil
}

// postTo makes one attempt with an egress that reaches the ranges of allow.
func postTo(t *testing.T, address string, allow []string, secrets map[string]string, names ...string) tools.Outcome {
	t.Helper()
	ranges, err := egress.ParseAllow(allow)
	if err != nil {
		t.Fatal(err)
	}
	def := &spec.Callback{}
	for _, n := range names {
		def.Secrets = append(def.Secrets, spec.SecretRef{Env: n})
	}
	run := events.NewRunID()
	for _, k := range kind.All(kind.Config{Egress: egress.New(egress.Config{Allow: ranges}), Ends: endings{},
		LookupEnv: func(k string) (string, bool) { v, ok := secrets[k]; return v, ok }}) {
		if k.Name() == tools.BuiltinCallback {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			return k.Act(ctx, tools.Request{Class: tools.ClassIdempotent, CallID: events.NewCallID(run, 9, 0), RunID: run, Namespace: "default",
				Args: json.RawMessage(fmt.Sprintf(`{"url":%q,"kind":"flow","name":"night"}`, address)), Callback: def})
		}
	}
	t.Fatal("no kind posts callbacks")
	return tools.Outcome{}
}

var callbackSecrets = map[string]string{
	"GOOD":   "whsec_" + base64.StdEncoding.EncodeToString([]byte(canary)),
	"BAD":    "whsec_" + canary + "!",
	"PUBLIC": "whpk_11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=",
}

// What stands in the way on our side posts nothing, says why without the secret,
// and is tried again: it may be mended.
func TestCallback_NothingIsSent(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	t.Cleanup(srv.Close)
	local := []string{"127.0.0.0/8"}
	for name, tc := range map[string]struct {
		url     string
		allow   []string
		secrets []string
		code    string
	}{
		"a private address":         {srv.URL, nil, []string{"GOOD"}, "address_refused"},
		"a name that means one":     {strings.Replace(srv.URL, "127.0.0.1", "localhost", 1), nil, []string{"GOOD"}, "address_refused"},
		"the metadata of a cloud":   {"http://169.254.169.254/latest", local, []string{"GOOD"}, "address_refused"},
		"a secret that is not set":  {srv.URL, local, []string{"GOOD", "NONE"}, "callback_misconfigured"},
		"a secret that is no key":   {srv.URL, local, []string{"BAD"}, "callback_misconfigured"},
		"a key that cannot sign":    {srv.URL, local, []string{"PUBLIC", "GOOD"}, "callback_misconfigured"},
		"no secret":                 {srv.URL, local, nil, "callback_misconfigured"},
		"a port where nobody is at": {"http://127.0.0.1:1/", local, []string{"GOOD"}, "unreachable"},
	} {
		out := postTo(t, tc.url, tc.allow, callbackSecrets, tc.secrets...)
		if out.Verdict != tools.NotSent || out.Error == nil || out.Error.Code != tc.code {
			t.Errorf("%s: %s, %+v, want not_sent, %s", name, out.Verdict, out.Error, tc.code)
		}
		if text := fmt.Sprintf("%+v %+v", out.Error, out.Receipt); strings.Contains(text, canary) || strings.Contains(text, callbackSecrets["GOOD"]) {
			t.Errorf("%s: the secret shows: %s", name, text)
		}
	}
	if n := requests.Load(); n != 0 {
		t.Errorf("%d requests", n)
	}
}

func TestCallback_WhatAnAnswerMeans(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]tools.Verdict{
		200: tools.Happened, 204: tools.Happened, 299: tools.Happened,
		301: tools.NotSent, 302: tools.NotSent, 307: tools.NotSent, 308: tools.NotSent,
		400: tools.NotSent, 401: tools.NotSent, 404: tools.NotSent, 409: tools.NotSent, 422: tools.NotSent, 425: tools.NotSent, 429: tools.NotSent,
		408: tools.Ambiguous, 500: tools.Ambiguous, 501: tools.Ambiguous, 503: tools.Ambiguous,
		410: tools.Refused,
	} {
		var paths []string
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			paths = append(paths, r.URL.Path)
			w.Header().Set("Location", "/elsewhere")
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(status)
		}))
		out := postTo(t, srv.URL+"/in", []string{"127.0.0.0/8"}, callbackSecrets, "GOOD")
		srv.Close()
		if out.Verdict != want || out.Receipt.Status != status {
			t.Errorf("%d: %s, receipt %+v, want %s", status, out.Verdict, out.Receipt, want)
		}
		if want != tools.Happened && out.RetryAfter != 7*time.Second {
			t.Errorf("%d: Retry-After became %s", status, out.RetryAfter)
		}
		if len(paths) != 1 || paths[0] != "/in" { // a signature never goes where it was not made for
			t.Errorf("%d: requests for %v", status, paths)
		}
	}
}

// No document can be of this kind.
func TestCallback_NoDocumentNamesIt(t *testing.T) {
	t.Parallel()
	if spec.BuiltinNamed(tools.BuiltinCallback) != nil {
		t.Errorf("documents may name the builtin %s", tools.BuiltinCallback)
	}
	if spec.ValidName(events.CallbackTool) {
		t.Errorf("a document may be named %s", events.CallbackTool)
	}
}
