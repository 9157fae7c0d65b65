package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/holdfast-run/holdfast/internal/config"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

// openAIURL is where OpenAI itself answers.
const openAIURL = "https://api.openai.com/v1"

// openAI reaches the endpoints that its two adapters speak to.
type openAI struct{ env Env }

// post makes one request and reads its answer's JSON text.
func (o openAI) post(ctx context.Context, r runner.Request, path string, body []byte, a stream) (raw string, streamed bool, out runner.Answer, err error) {
	key, err := r.Model.APIKey.Resolve(o.env.LookupEnv, o.env.ReadFile)
	if err != nil {
		return "", false, out, &runner.ModelError{Code: "auth", Err: err}
	}
	base, err := o.env.baseURL(r.Model, openAIURL)
	if err != nil {
		return "", false, out, err
	}
	hc, err := o.env.client(r.Model)
	if err != nil {
		return "", false, out, &runner.ModelError{Code: "tls", Err: err}
	}
	// Put together here and not by NewClient, which takes options from the
	// process's environment.
	client := openai.Client{Options: []option.RequestOption{
		option.WithBaseURL(base), option.WithAPIKey(config.Secret(key).Reveal()), option.WithMaxRetries(0), option.WithHTTPClient(hc),
		option.WithHeader("X-Client-Request-Id", fmt.Sprintf("%s/%d/%d", r.RunID, r.Seq, r.Epoch)),
	}}
	ctx, cancel := context.WithTimeout(ctx, r.Model.Timeout.Std())
	defer cancel()
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	began := time.Now()
	var response *http.Response
	if err := client.Post(ctx, path, nil, &response, option.WithRequestBody("application/json", body), option.WithResponseInto(&response)); err != nil {
		return "", false, out, requestError(ctx, err, response)
	}
	raw, streamed, err = o.env.read(ctx, giveUp, response, r.Show, a)
	out.Duration, out.RequestID = time.Since(began), requestID(response.Header)
	return raw, streamed, out, err
}

func (o openAI) baseURL(r runner.Request) string {
	base, _ := o.env.baseURL(r.Model, openAIURL) // a wrong one is told when it is asked
	return base
}

// official reports whether the request goes to OpenAI and not to a server that
// is compatible with it as far as its makers knew.
func (o openAI) official(r runner.Request) bool {
	u, err := url.Parse(o.baseURL(r))
	return err == nil && (u.Hostname() == "openai.com" || strings.HasSuffix(u.Hostname(), ".openai.com"))
}

// body collects the members of a request. What was stored goes into it as the
// text that it is.
type body struct {
	object
	err error
}

func (b *body) put(name string, v any) {
	raw, ok := v.(json.RawMessage)
	if !ok {
		var err error
		if raw, err = events.Marshal(v); err != nil {
			b.err = errors.Join(b.err, fmt.Errorf("%s: %w", name, err))
			return
		}
	}
	if b.values == nil {
		b.values = map[string]json.RawMessage{}
	}
	b.set(name, raw)
}

func (b *body) bytes() ([]byte, error) {
	if b.err != nil {
		return nil, b.err
	}
	return b.json()
}

// list joins JSON values to an array, each as it is.
func list(items []json.RawMessage) json.RawMessage {
	out := []byte{'['}
	for i, item := range items {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, item...)
	}
	return append(out, ']')
}

// writtenArgs are a call's arguments as the model wrote them: text inside a JSON
// string, of which nothing at all means no arguments.
func writtenArgs(raw json.RawMessage) json.RawMessage {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return raw
	}
	if strings.TrimSpace(text) == "" {
		return json.RawMessage(`{}`)
	}
	return json.RawMessage(text)
}

// mendArgs replaces arguments that are no JSON object by an empty one: many
// servers parse the arguments of a history and refuse what does not parse. The
// call's result says what was wrong.
func mendArgs(call *object) (changed bool) {
	if isObject(writtenArgs(call.values["arguments"])) && call.text("arguments") != "" {
		return false
	}
	call.set("arguments", json.RawMessage(`"{}"`))
	return true
}

// maxName is the longest name of a tool that every provider takes.
const maxName = 64

// mendName replaces the name of a call by one that providers take in a history: a model
// may call what no tool can be called. The call's result says that there is no such
// tool.
func mendName(call *object) (changed bool) {
	name := call.text("name")
	mended := strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
			return r
		}
		return '_'
	}, name)
	if mended = mended[:min(len(mended), maxName)]; mended == "" {
		mended = "_"
	}
	if mended == name {
		return false
	}
	call.set("name", json.RawMessage(`"`+mended+`"`))
	return true
}

// callNames are the ids that the calls of one answer go by in the history: the
// model's own, unless one is missing or used twice. Some servers do that, and a
// result would then belong to no call or to two.
func callNames(entry int, ids []string) (names []string, own bool) {
	seen := map[string]bool{}
	for _, id := range ids {
		if id == "" || seen[id] {
			names = nil
			for i := range ids {
				names = append(names, fmt.Sprintf("call_%d_%d", entry, i))
			}
			return names, false
		}
		seen[id] = true
	}
	return ids, true
}

// resultNames are the ids under which entry i of a history answers the calls of
// the answer before it.
func resultNames(entries []runner.Entry, i int) []string {
	ids := make([]string, len(entries[i].Results))
	for k, r := range entries[i].Results {
		ids[k] = r.ProviderID
	}
	names, _ := callNames(i-1, ids)
	return names
}
