package spec

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// HTTP makes a tool of one request to another system.
type HTTP struct {
	Method string `json:"method"` // default GET for a read, else POST
	// URL is over ${args...} and ${env...}; use Template.URL to render it.
	// ${env.NAME} is read from the environment of the tools service, names
	// starting with ToolEnvPrefix only. A secret belongs in a header: URLs end
	// up in logs.
	URL *Template `json:"url"`
	// Query adds parameters to the URL.
	Query map[string]QueryParam `json:"query,omitempty"`
	// Headers and Body are over ${args...}, ${env...} and ${secret...}, with
	// Callback also ${callback.url}.
	Headers map[string]*Template `json:"headers,omitempty"`
	Body    *Template            `json:"body,omitempty"` // default "${args}"; none for GET, HEAD and DELETE
	// Secrets names what ${secret.<name>} reads.
	Secrets map[string]SecretRef `json:"secrets,omitempty"`
	// IdempotencyHeader carries the key of the action; default Idempotency-Key.
	IdempotencyHeader string `json:"idempotencyHeader"`
	// Output is what the model reads of a success, over ${status}, ${headers...}
	// and ${body...}; default the answer.
	Output *Template `json:"output,omitempty"`
	// Success is a condition over status, headers and body: true says that it
	// happened, false on a 2xx that it surely did not. Default: every 2xx.
	Success *Condition `json:"success,omitempty"`
	Retry   *HTTPRetry `json:"retry,omitempty"` // which answers surely changed nothing and may be asked again
	// Artifact says where the thing is that a success made elsewhere.
	Artifact *HTTPArtifact `json:"artifact,omitempty"`
	// Callback lets the answer come later, to ${callback.url}.
	Callback *HTTPCallback `json:"callback,omitempty"`
}

var (
	methods       = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"}
	headerPattern = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$")
)

func (h *HTTP) fill(effect string) {
	if h.Method == "" {
		h.Method = "POST"
		if effect == EffectRead {
			h.Method = "GET"
		}
	}
	if h.Body == nil && h.hasBody() {
		h.Body = mustTemplate(`"${args}"`)
	}
	if h.Retry != nil {
		h.Retry.fill()
	}
	if h.Callback != nil {
		h.Callback.fill()
	}
	if h.IdempotencyHeader == "" {
		h.IdempotencyHeader = "Idempotency-Key"
	}
}

func (h *HTTP) hasBody() bool {
	return h.Method == "POST" || h.Method == "PUT" || h.Method == "PATCH"
}

func (h *HTTP) check(d *decoder, s spot) {
	known := d.oneOf(s.at("method"), h.Method, methods...)
	if known && h.Body != nil && !h.hasBody() {
		d.fail(s.at("body"), "a %s request has no body", h.Method)
	}
	d.require(s.at("url"), h.URL != nil, "where the request goes")
	if h.URL != nil {
		d.textTemplate(s.at("url"), h.URL)
		h.URL.each(func(f *form, p Path) {
			if p.Root == "secret" {
				d.also(f.at, "${%s}: a URL ends up in logs; put secrets in a header", p)
			}
		})
		d.roots(h.URL, "args", "env", "secret")
		if h.URL.isText() && !d.failed[s.at("url").path] {
			d.serverPart(s.at("url"), h.URL)
		}
	}
	h.checkQuery(d, s.at("query"))
	for _, name := range names(h.Headers) {
		at := s.at("headers", name)
		if !headerPattern.MatchString(name) {
			d.fail(at, "%q is not the name of a header", shorten(name))
		}
		if strings.EqualFold(name, h.IdempotencyHeader) {
			d.fail(at, "is set for every call; to send the key under another name set idempotencyHeader")
		}
		if h.Headers[name] != nil {
			d.textTemplate(at, h.Headers[name])
		}
	}
	if !headerPattern.MatchString(h.IdempotencyHeader) {
		d.fail(s.at("idempotencyHeader"), "%q is not the name of a header", shorten(h.IdempotencyHeader))
	}
	for _, name := range names(h.Secrets) {
		if head, rest := word(name); head == "" || rest != "" {
			d.fail(s.at("secrets", name), "%q cannot be used in ${secret...}: use letters, digits, _ and -", shorten(name))
		}
	}
	h.checkAnswer(d, s)
	h.checkCallback(d, s.at("callback"))
	roots := []string{"args", "env", "secret"}
	if h.Callback != nil {
		roots = append(roots, "callback")
	}
	for _, t := range h.templates() {
		if t != h.URL && !h.inQuery(t) {
			d.roots(t, roots...)
		}
		h.checkPlaces(d, t)
	}
}

func (h *HTTP) templates() []*Template {
	out := []*Template{h.URL, h.Body}
	for _, name := range names(h.Headers) {
		out = append(out, h.Headers[name])
	}
	for _, name := range names(h.Query) {
		out = append(out, h.Query[name].Value)
	}
	return out
}

// checkPlaces checks that ${secret.x} is declared and ${env.X} is readable.
func (h *HTTP) checkPlaces(d *decoder, t *Template) {
	t.each(func(f *form, p Path) {
		switch p.Root {
		case "secret":
			if t == h.URL {
				return // refused already
			}
			if _, ok := h.Secrets[p.Member()]; len(p.steps) != 1 || !ok {
				d.also(f.at, "${%s} is not declared in secrets%s", p, didYouMean(p.Member(), names(h.Secrets)))
			}
		case "callback":
			if len(p.steps) != 1 || p.Member() != "url" {
				d.also(f.at, "${%s}: of a callback there is only ${callback.url}", p)
			}
		case "env":
			if len(p.steps) != 1 || !strings.HasPrefix(p.Member(), ToolEnvPrefix) {
				d.also(f.at, "${%s}: only variables whose names start with %s can be read, like ${env.%sURL}", p, ToolEnvPrefix, ToolEnvPrefix)
			}
		}
	})
}

// EnvValues reads the environment variables that the templates name, as the
// JSON object for the root "env". One that is not set or empty is an error.
func (h *HTTP) EnvValues(lookupEnv func(string) (string, bool)) (json.RawMessage, error) {
	values := map[string]string{}
	for _, t := range h.templates() {
		for _, p := range t.Paths() {
			if p.Root != "env" {
				continue
			}
			name := p.Member()
			if !strings.HasPrefix(name, ToolEnvPrefix) {
				return nil, fmt.Errorf("environment variable %s cannot be read by a tool", shorten(name))
			}
			v, _ := lookupEnv(name)
			if v == "" {
				return nil, fmt.Errorf("environment variable %s is not set where the tools service runs", name)
			}
			values[name] = v
		}
	}
	return json.Marshal(values)
}

// SecretValues resolves the secrets that the templates name, as the JSON
// object for the root "secret". Keep it out of logs, errors and stored rows.
func (h *HTTP) SecretValues(lookupEnv func(string) (string, bool), readFile func(string) ([]byte, error)) (json.RawMessage, error) {
	values := map[string]string{}
	for _, t := range h.templates() {
		for _, p := range t.Paths() {
			if p.Root != "secret" {
				continue
			}
			v, err := h.Secrets[p.Member()].Resolve(lookupEnv, readFile)
			if err != nil {
				return nil, fmt.Errorf("resolve secret %s: %w", p.Member(), err)
			}
			values[p.Member()] = v
		}
	}
	return json.Marshal(values)
}
