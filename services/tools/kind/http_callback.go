package kind

import (
	"context"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"net/http"
	"strings"

	"github.com/holdfast-run/holdfast/internal/egress"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/tools"
)

var _ tools.Replier = (*HTTP)(nil)

// byAcceptance lets the definition say that the result follows. When that cannot
// be told of a 2xx, nobody knows whether there is a result already.
func byAcceptance(def *spec.HTTPCallback, values map[string]json.RawMessage, status int, scrub scrubber) *tools.Outcome {
	if def == nil || status < 200 || status > 299 {
		return nil
	}
	later, err := def.Accepts(values)
	switch {
	case err != nil:
		return &tools.Outcome{Error: &events.Problem{Code: "accepted_unknown",
			Message: clean("the answer does not say whether the result follows: "+scrub.text(err.Error()), maxProblemBytes)}}
	case later:
		return &tools.Outcome{Verdict: tools.Accepted}
	}
	return nil
}

// Reply reads what the other side posts to the address that it was given.
func (h *HTTP) Reply(_ context.Context, r tools.Request, in tools.Reply) (tools.Outcome, error) {
	def := r.Tool.HTTP.Callback
	if def == nil {
		return tools.Outcome{}, fmt.Errorf("%w: the tool has no callback", tools.ErrBadReply)
	}
	secrets := map[string]string{}
	if len(def.Secrets) > 0 {
		if err := h.signed(def, in); err != nil {
			return tools.Outcome{}, err
		}
	}
	// What the request carried may come back with the result.
	if text, err := r.Tool.HTTP.SecretValues(h.lookupEnv, h.readFile); err == nil {
		_ = json.Unmarshal(text, &secrets) // our own object of texts
	}
	scrub, keep := newScrubber(secrets, in.Token), &keeper{r: r}
	resp := unzipped(egress.Response{Status: http.StatusOK, Header: in.Header, Body: in.Body})
	values := answerValues(resp, scrub)
	out := tools.Outcome{Verdict: tools.Happened, Receipt: tools.Receipt{
		Bytes: int64(len(in.Body)), ContentType: scrub.clean(in.Header.Get("Content-Type"), 200),
		RequestID: scrub.clean(requestID(in.Header), 200),
	}}
	if def.Failed != nil {
		failed, err := def.Failed.Eval(values)
		if err != nil {
			return tools.Outcome{}, fmt.Errorf("%w: it does not say whether it failed: %s", tools.ErrBadReply, clean(scrub.text(err.Error()), 500))
		}
		if failed {
			out.Verdict = tools.Refused
			out.Error = &events.Problem{Code: "callback_failed", Message: "the other side says that it failed" + bodyText(resp, scrub)}
			return scrub.outcome(out), nil
		}
	}
	out.Result = mapped(def.Result, values, resp, scrub, outputLimit(r.Tool, maxResultBytes), keep)
	elsewhere(r.Tool.HTTP.Artifact, values, keep)
	out.Artifacts = keep.list
	return scrub.outcome(out), nil
}

func bodyText(r egress.Response, scrub scrubber) string {
	body := scrub.cut(r.Body)
	if len(body) == 0 || !isText(r.Header.Get("Content-Type"), body) {
		return ""
	}
	return ": " + clean(strings.TrimSpace(string(body)), maxProblemBytes)
}

// defaultSignatureHeader is where the signature is when the definition names no
// header; defaultPrefix may then stand before it.
const (
	defaultSignatureHeader = "X-Signature"
	defaultPrefix          = "sha256="
)

// signed checks the HMAC of the body, in constant time for each secret.
func (h *HTTP) signed(def *spec.HTTPCallback, in tools.Reply) error {
	how := spec.Signature{}
	if def.Signature != nil {
		how = *def.Signature
	}
	if how.Header == "" {
		how.Header = defaultSignatureHeader
	}
	value := in.Header.Get(how.Header)
	if how.Prefix == "" && strings.HasPrefix(value, defaultPrefix) {
		how.Prefix = defaultPrefix
	}
	text, ok := strings.CutPrefix(value, how.Prefix)
	decode := hex.DecodeString
	if how.Encoding == "base64" {
		decode = base64.StdEncoding.DecodeString
	}
	given, err := decode(text)
	if !ok || err != nil || len(given) == 0 {
		return tools.ErrReplySignature
	}
	newHash := map[string]func() hash.Hash{"sha1": sha1.New, "sha512": sha512.New}[how.Algorithm]
	if newHash == nil {
		newHash = sha256.New
	}
	found := false
	for _, ref := range def.Secrets {
		secret, err := ref.Resolve(h.lookupEnv, h.readFile)
		if err != nil {
			return fmt.Errorf("secret of the callback: %w", err)
		}
		mac := hmac.New(newHash, []byte(secret))
		mac.Write(in.Body) // never fails
		found = hmac.Equal(mac.Sum(nil), given) || found
	}
	if !found {
		return tools.ErrReplySignature
	}
	return nil
}
