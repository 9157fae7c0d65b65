package main

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// welcome prints what a person needs who has just started "holdfast dev".
type welcome struct {
	out      io.Writer
	server   string
	dir      string
	database string // when it is not dev's own
	took     time.Duration
	applied  []client.Applied
	secrets  *devSecrets
}

func (w welcome) print(ctx context.Context) {
	var b strings.Builder
	fmt.Fprintf(&b, "\nHoldfast is ready (%.1f s)\n\n  console   %s/\n  data      %s (kept between starts)\n", w.took.Seconds(), w.server, w.dir)
	if w.database != "" {
		fmt.Fprintf(&b, "  database  %s\n", w.database)
	}
	if len(w.applied) > 0 {
		changed := 0
		for _, a := range w.applied {
			if a.Changed {
				changed++
			}
		}
		fmt.Fprintf(&b, "  applied   %d definitions, %d of them new or changed\n", len(w.applied), changed)
	}
	b.WriteString("\n")
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if api, err := client.New(client.Config{Server: w.server}); err == nil {
		tellStops(ctx, &b, api)
		w.start(ctx, api, &b)
		w.webhook(ctx, api, &b)
	}
	server := ""
	if w.server != client.DefaultServer {
		server = " --server " + w.server
	}
	fmt.Fprintf(&b, "Approve what waits:\n  holdfast approvals list%s\n  holdfast approvals approve ID%s\n\n", server, server)
	fmt.Fprintf(&b, "Follow it:\n  holdfast events --follow%s\n\nCtrl-C lets work finish, a second Ctrl-C leaves at once.\n\n", server)
	_, _ = io.WriteString(w.out, b.String()) // a closed terminal is no reason to stop
}

// start prints the call that starts a run of one definition.
func (w welcome) start(ctx context.Context, api *client.Client, b *strings.Builder) {
	for _, kind := range []string{"agent", "flow"} {
		r, ok := first(ctx, api, kind)
		if !ok {
			continue
		}
		body, err := json.Marshal(map[string]json.RawMessage{"input": sampleInput(r.Body)})
		if err != nil {
			continue
		}
		fmt.Fprintf(b, "Start a run of the %s %s:\n  curl -sS -X POST %s/v1/%ss/%s/runs -H 'Idempotency-Key: first' \\\n    -H 'Content-Type: application/json' -d %s\n\n",
			r.Kind, r.Name, w.server, kind, r.Name, quote(string(body)))
		return
	}
	b.WriteString("There is nothing to run yet. Store definitions:\n  holdfast apply -f examples/competitor-monitor\n\n")
}

// webhook prints a signed delivery that can be sent as it stands.
func (w welcome) webhook(ctx context.Context, api *client.Client, b *strings.Builder) {
	r, ok := first(ctx, api, "webhook")
	if !ok {
		return
	}
	hook, err := spec.DecodeWebhook(r.Body)
	if err != nil {
		return
	}
	var target json.RawMessage
	for kind, name := range map[string]string{"agent": hook.Agent, "flow": hook.Flow} {
		if name == "" {
			continue
		}
		if t, err := api.Resource(ctx, kind, name); err == nil {
			target = t.Body
		}
	}
	body := quote(sampleBody(r.Body, target))
	url := w.server + "/hooks/" + r.Name
	secret := ""
	if len(hook.Secrets) > 0 {
		made, ok := w.secrets.made(hook.Secrets[0])
		if ok {
			secret = made
		} else {
			secret = "$" + cmp.Or(hook.Secrets[0].Env, "SECRET") // set by its owner: not ours to print
		}
	}
	fmt.Fprintf(b, "Send one delivery to the webhook %s:\n", r.Name)
	switch {
	case hook.Provider == "none":
		fmt.Fprintf(b, "  curl -sS -X POST %s -H 'Content-Type: application/json' -d %s\n\n", url, body)
	case hook.Provider == "standard":
		fmt.Fprintf(b, `  b=%s; t=$(date +%%s); k=%s
  curl -sS -X POST %s -H 'Content-Type: application/json' -d "$b" \
    -H "webhook-id: msg_$t" -H "webhook-timestamp: $t" \
    -H "webhook-signature: v1,$(printf %%s "msg_$t.$t.$b" | openssl dgst -sha256 -mac HMAC -macopt "hexkey:$k" -binary | base64)"
`, body, hexKey(secret), url)
		b.WriteString("\n")
	default:
		fmt.Fprintf(b, "  POST %s, signed as %s does with %s\n\n", url, hook.Provider, secret)
	}
}

// hexKey is the key of a Standard Webhooks secret as openssl wants it: ready
// when we made the secret, else a command that reads it from its variable.
func hexKey(secret string) string {
	if raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_")); err == nil {
		return fmt.Sprintf("%x", raw)
	}
	return fmt.Sprintf(`$(printf %%s "${%s#whsec_}" | base64 -d | od -An -v -tx1 | tr -d ' \n')`, strings.TrimPrefix(secret, "$"))
}

// first returns one definition of a kind with its body.
func first(ctx context.Context, api *client.Client, kind string) (client.Resource, bool) {
	page, err := api.Resources(ctx, kind, client.PageRequest{Limit: 1})
	if err != nil || len(page.Items) == 0 {
		return client.Resource{}, false
	}
	r, err := api.Resource(ctx, kind, page.Items[0].Name)
	return r, err == nil
}

// sampleInput fills the required members of a definition's input schema.
func sampleInput(body json.RawMessage) json.RawMessage {
	var doc struct {
		Spec struct {
			Input json.RawMessage `json:"input"`
		} `json:"spec"`
	}
	if json.Unmarshal(body, &doc) != nil || len(doc.Spec.Input) == 0 {
		return json.RawMessage("{}")
	}
	return sample(doc.Spec.Input, "", 0)
}

// sample makes a value that a simple schema accepts; it is a suggestion to a
// person, who changes it.
func sample(schema json.RawMessage, name string, depth int) json.RawMessage {
	var s struct {
		Type       any                        `json:"type"`
		Enum       []json.RawMessage          `json:"enum"`
		Default    json.RawMessage            `json:"default"`
		Examples   []json.RawMessage          `json:"examples"`
		Required   []string                   `json:"required"`
		Properties map[string]json.RawMessage `json:"properties"`
		Format     string                     `json:"format"`
		Items      json.RawMessage            `json:"items"`
	}
	if depth > 5 || json.Unmarshal(schema, &s) != nil {
		return json.RawMessage("null")
	}
	switch {
	case s.Default != nil:
		return s.Default
	case len(s.Examples) > 0:
		return s.Examples[0]
	case len(s.Enum) > 0:
		return s.Enum[0]
	}
	switch s.Type {
	case "integer", "number":
		return json.RawMessage("1")
	case "boolean":
		return json.RawMessage("true")
	case "array":
		if s.Items != nil {
			return json.RawMessage("[" + string(sample(s.Items, name, depth+1)) + "]")
		}
		return json.RawMessage("[]")
	case "string":
		text := map[string]string{"date": "2026-01-31", "date-time": "2026-01-31T09:00:00Z", "uri": "https://example.com/", "email": "a@example.com"}[s.Format]
		b, _ := json.Marshal(cmp.Or(text, name, "text")) // a string always has a form
		return b
	}
	object := map[string]json.RawMessage{}
	for _, key := range s.Required {
		object[key] = sample(s.Properties[key], key, depth+1)
	}
	b, _ := json.Marshal(object) // of valid JSON
	return b
}

// bodyPath is a template that takes one member of a webhook's body.
var bodyPath = regexp.MustCompile(`\$\{body((?:\.[A-Za-z0-9_]+)+)\}`)

// sampleBody makes a body that has every member that the webhook's templates
// read. A member that becomes an input of the target looks as the target's
// schema wants it.
func sampleBody(definition, target json.RawMessage) string {
	var hook struct {
		Spec struct {
			Input json.RawMessage `json:"input"`
		} `json:"spec"`
	}
	var inputs map[string]string
	if json.Unmarshal(definition, &hook) == nil {
		_ = json.Unmarshal(hook.Spec.Input, &inputs) // another shape: names stand for values
	}
	var wanted map[string]any
	_ = json.Unmarshal(sampleInput(target), &wanted)
	fits := map[string]any{}
	for name, template := range inputs {
		if m := bodyPath.FindStringSubmatch(template); m != nil && m[0] == template && wanted[name] != nil {
			fits[m[1]] = wanted[name]
		}
	}
	root := map[string]any{}
	for _, m := range bodyPath.FindAllStringSubmatch(string(definition), -1) {
		at := root
		names := strings.Split(strings.TrimPrefix(m[1], "."), ".")
		for _, name := range names[:len(names)-1] {
			next, ok := at[name].(map[string]any)
			if !ok {
				next = map[string]any{}
				at[name] = next
			}
			at = next
		}
		last := names[len(names)-1]
		if fit, ok := fits[m[1]]; ok {
			at[last] = fit
		} else if _, has := at[last]; !has {
			at[last] = last
		}
	}
	b, _ := json.Marshal(root) // plain values in maps
	return string(b)
}

// quote makes one word of a shell command.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
