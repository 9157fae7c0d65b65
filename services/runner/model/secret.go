package model

import (
	"bytes"
	"context"
	"errors"
	"strings"

	"github.com/holdfast-run/holdfast/services/runner"
)

// discreet takes the API key out of what a provider says about a request: it may
// repeat the key in an error, and errors are kept in the journal.
type discreet struct {
	env Env
	runner.Model
}

// Answer implements runner.Model.
func (d discreet) Answer(ctx context.Context, r runner.Request) (runner.Answer, error) {
	out, err := d.Model.Answer(ctx, r)
	key, kerr := r.Model.APIKey.Resolve(d.env.LookupEnv, d.env.ReadFile)
	if kerr != nil || len(key) < shortestKey {
		return out, err
	}
	out.RequestID = without(out.RequestID, key)
	if strings.Contains(out.Raw, key) { // a history that is not the provider's own word for word is the smaller harm
		out.Raw, out.Text = strings.ReplaceAll(out.Raw, key, redacted), strings.ReplaceAll(out.Text, key, redacted)
		for i := range out.Calls {
			out.Calls[i].Args = bytes.ReplaceAll(out.Calls[i].Args, []byte(key), []byte(redacted))
		}
	}
	if e, ok := err.(*runner.ModelError); ok {
		clean := *e
		clean.Code = without(e.Code, key)
		if text := e.Err.Error(); without(text, key) != text {
			clean.Err = errors.New(without(text, key))
		}
		err = &clean
	}
	return out, err
}

const redacted = "[redacted]"

// shortestKey is how long what is taken for a secret is at least. Servers that
// check no key are given "none" or "ollama", and answers have such words.
const shortestKey = 16

// without takes a secret out of text, its beginning at a place where the text was
// cut off included.
func without(text, secret string) string {
	text = strings.ReplaceAll(text, secret, redacted)
	for n := min(len(secret)-1, len(text)); n >= 4; n-- {
		if strings.HasSuffix(text, secret[:n]) {
			return text[:len(text)-n] + redacted
		}
	}
	return text
}
