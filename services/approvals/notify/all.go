// Package notify sends messages to people: one file for each kind of channel.
// Everything goes out through internal/egress, and secrets are resolved when they
// are used. What is shown was written by models and other systems: each channel
// takes from it whatever would be markup there.
package notify

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/internal/egress"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/approvals"
)

// Egress sends requests and makes connections, guarded.
type Egress interface {
	Do(ctx context.Context, r egress.Request) (egress.Response, error)
	Dial(ctx context.Context, address string, r egress.Reach) (net.Conn, *tls.Config, error)
}

// Config is what channels need.
type Config struct {
	Egress    Egress
	LookupEnv func(string) (string, bool)
	ReadFile  func(string) ([]byte, error)
}

// NewSlack returns what takes clicks in Slack.
func NewSlack(c Config) *Slack { return &Slack{c} }

// All returns every kind of channel.
func All(c Config) []approvals.Channel {
	return []approvals.Channel{&Slack{c}, &Email{c}, &Webhook{c}}
}

func (c Config) secret(what string, r spec.SecretRef) (string, error) {
	s, err := r.Resolve(c.LookupEnv, c.ReadFile)
	if err != nil {
		return "", fmt.Errorf("%s: %w", what, err)
	}
	return s, nil
}

func (c Config) reach(def *spec.Channel) (egress.Reach, error) {
	return egress.ReachOf(def.TLS, def.AllowHosts, c.LookupEnv, c.ReadFile)
}

// later is an attempt that sent nothing, for a reason that may pass.
func later(err error) approvals.Delivery {
	return approvals.Delivery{Verdict: approvals.NotTaken, Problem: err.Error()}
}

// maxAnswer bounds what is read of an answer.
const maxAnswer = 64 << 10

// post sends a request. ok is false when there is no answer to judge.
func (c Config) post(ctx context.Context, r egress.Request) (resp egress.Response, d approvals.Delivery, ok bool) {
	r.Method, r.MaxBytes = http.MethodPost, maxAnswer
	resp, err := c.Egress.Do(ctx, r)
	if err == nil {
		return resp, d, true
	}
	d = later(err)
	if e, is := errors.AsType[*egress.Error](err); !is || e.Sent {
		d.Verdict = approvals.Uncertain
	}
	return resp, d, false
}

// judge says what the status of an answer means:
//
//	2xx              taken
//	429, 503         surely not taken, again
//	408, other 5xx   nobody knows
//	410              refused for good
//	else             not taken, again: the channel may be mended meanwhile
func judge(r egress.Response) approvals.Delivery {
	d := approvals.Delivery{RetryAfter: retryAfter(r.Header.Get("Retry-After"), time.Now()), Problem: fmt.Sprintf("the other side answered %d", r.Status)}
	switch s := r.Status; {
	case s >= 200 && s < 300:
		return approvals.Delivery{Verdict: approvals.Taken}
	case s == http.StatusGone:
		d.Verdict = approvals.Refused
	case s == http.StatusServiceUnavailable || s < 500 && s != http.StatusRequestTimeout:
		d.Verdict = approvals.NotTaken
	default:
		d.Verdict = approvals.Uncertain
	}
	return d
}

// retryAfter reads the header: seconds, or a date. Anything else is no wish.
func retryAfter(v string, now time.Time) time.Duration {
	v = strings.TrimSpace(v)
	if n, err := strconv.ParseUint(v, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if t, err := http.ParseTime(v); err == nil {
		return max(0, t.Sub(now))
	}
	return 0
}
