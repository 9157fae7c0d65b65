package spec

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

// maxSecretBytes bounds a resolved secret.
const maxSecretBytes = 64 << 10

// SecretRef says where a secret is found: in an environment variable or in a
// file of the process that uses it. Exactly one is set.
type SecretRef struct {
	Env  string `json:"env,omitempty"`
	File string `json:"file,omitempty"`
}

// IsZero reports whether nothing is named.
func (r SecretRef) IsZero() bool { return r == SecretRef{} }

// Resolve reads the secret, without line ends behind it. An absent or empty
// secret is an error. Errors name the place, never the value.
func (r SecretRef) Resolve(lookupEnv func(string) (string, bool), readFile func(string) ([]byte, error)) (string, error) {
	var value, where string
	switch {
	case r.Env != "":
		where = "environment variable " + r.Env
		v, ok := lookupEnv(r.Env)
		if !ok {
			return "", fmt.Errorf("%s is not set", where)
		}
		value = v
	case r.File != "":
		where = "file " + r.File
		b, err := readFile(r.File)
		if err != nil {
			return "", fmt.Errorf("read secret: %w", err)
		}
		value = string(b)
	default:
		return "", fmt.Errorf("secret names neither env nor file")
	}
	value = strings.TrimRight(value, "\r\n")
	switch {
	case value == "":
		return "", fmt.Errorf("%s is empty", where)
	case len(value) > maxSecretBytes:
		return "", fmt.Errorf("%s holds more than %d bytes", where, maxSecretBytes)
	}
	return value, nil
}

func (r *SecretRef) readNode(d *decoder, s spot) {
	if s.n.kind != mapNode { // never quote the value: it may be the secret
		d.fail(s, "expected {env: NAME} or {file: PATH}; a definition never holds the secret itself")
		return
	}
	type plain SecretRef
	var p plain
	d.into(s, reflectOf(&p))
	*r = SecretRef(p)
	d.exactlyOne(s, map[string]bool{"env": r.Env != "", "file": r.File != ""})
	if r.Env != "" {
		d.envName(s.at("env"), r.Env)
	}
	if r.File != "" && (!strings.HasPrefix(r.File, "/") || path.Clean(r.File) != r.File) {
		d.fail(s.at("file"), "%q must be an absolute path without . and ..", shorten(r.File))
	}
}

var envPattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)

// ToolEnvPrefix starts the name of every environment variable that the URL of
// a tool may read.
const ToolEnvPrefix = "HOLDFAST_TOOL_"

// openPrefixes are the HOLDFAST_ variables that definitions may name. The rest
// configure the services themselves (database URLs and the like) and must not
// be sent anywhere by a definition.
var openPrefixes = []string{ToolEnvPrefix, "HOLDFAST_MODEL_", "HOLDFAST_WEBHOOK_", "HOLDFAST_SECRET_", "HOLDFAST_DEMO_"}

func (d *decoder) envName(s spot, name string) {
	if !envPattern.MatchString(name) {
		d.fail(s, "%q is not the name of an environment variable", shorten(name))
		return
	}
	if !strings.HasPrefix(name, "HOLDFAST_") {
		return
	}
	for _, p := range openPrefixes {
		if strings.HasPrefix(name, p) {
			return
		}
	}
	d.fail(s, "%s configures Holdfast itself and cannot be read by a definition; of its variables only %s*, %s*, %s*, %s* and %s* can",
		shorten(name), openPrefixes[0], openPrefixes[1], openPrefixes[2], openPrefixes[3], openPrefixes[4])
}

// Setting is a plain value, or the name of the environment variable that holds
// it. It is for addresses, not for secrets.
type Setting struct {
	Value string
	Env   string
}

// Resolve returns the value; "" when the variable is not set.
func (x Setting) Resolve(lookupEnv func(string) (string, bool)) string {
	if x.Env == "" {
		return x.Value
	}
	v, _ := lookupEnv(x.Env)
	return v
}

// IsZero reports whether neither is given.
func (x Setting) IsZero() bool { return x == Setting{} }

// MarshalJSON writes the text or {"env": NAME}.
func (x Setting) MarshalJSON() ([]byte, error) {
	if x.Env == "" {
		return quote(x.Value), nil
	}
	return []byte(`{"env":` + string(quote(x.Env)) + `}`), nil
}

func (x *Setting) readNode(d *decoder, s spot) {
	if s.n.kind == textNode {
		x.Value = s.n.text
		return
	}
	if s.n.kind != mapNode {
		d.fail(s, "expected text or {env: NAME}, found %s", describe(s.n))
		return
	}
	var p struct {
		Env string `json:"env"`
	}
	d.into(s, reflectOf(&p))
	x.Env = p.Env
	if x.Env == "" {
		d.fail(s, "expected text or {env: NAME}")
		return
	}
	d.envName(s.at("env"), x.Env)
}

// maxSecrets is how many keys may count at once, so that one can take another's
// place.
const maxSecrets = 5

// secrets checks the keys of signatures.
func (d *decoder) secrets(s spot, of []SecretRef) {
	if len(of) > maxSecrets {
		d.fail(s, "has %d secrets; at most %d are allowed", len(of), maxSecrets)
	}
	for i, secret := range of {
		if secret.IsZero() {
			d.fail(s.at(i), "exactly one of env, file is required")
		}
	}
}
