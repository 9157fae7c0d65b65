package tools

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// EffectAwaiting is what an intent is shown as whose result is to be posted.
const EffectAwaiting = "awaiting"

// TokenBytes is how long the token of an address is.
const TokenBytes = 43

// ReplyPath is where results are posted, before the token.
const ReplyPath = "/v1/callbacks/"

var (
	// ErrBadReply says that a reply does not say whether it happened.
	ErrBadReply = errors.New("the callback cannot be understood")
	// ErrReplySignature says that a reply is not signed as its tool demands.
	ErrReplySignature = errors.New("the signature is missing or wrong")
	// ErrReplyTaken says that another result was taken before, or that the call
	// was settled in another way.
	ErrReplyTaken = errors.New("the call has another outcome")
)

// Reply is the result of a call that the other side posts to ${callback.url}.
type Reply struct {
	Token  string
	Header http.Header
	Body   []byte
}

// Replier is a Kind whose other side may answer later.
type Replier interface {
	// Reply says what a reply to a call means: Happened or Refused.
	// ErrReplySignature, ErrBadReply; another error when it cannot be told now.
	Reply(ctx context.Context, r Request, in Reply) (Outcome, error)
}

// Ticket is the address of one attempt's reply, as Begin keeps it.
type Ticket struct {
	Hash string // of the token; empty: the attempt has none
	// Shared says that the other side honours the key, so that all attempts of
	// one begin are one act. Continues says that an attempt of the same begin
	// went before.
	Shared, Continues bool
}

// Awaited is a ticket that was given out, with its effect as it stands.
type Awaited struct {
	Hash       string
	Effect     Effect
	Epoch      int64 // of the attempt
	CallID     events.CallID
	RunID      events.RunID // of the call
	ToolDigest events.Digest
	Shared     bool
	Doubted    bool // an attempt before this one may have happened
	Live       bool // no other act has begun since
	Digest     events.Digest
	Applied    bool
}

// Counts reports whether a reply may still settle the effect. That an older
// attempt failed says nothing about a newer one.
func (a Awaited) Counts(v Verdict) bool {
	e := a.Effect
	return a.Live && (e.State == EffectIntent || e.Open()) &&
		(a.Epoch == e.Claim.Epoch || a.Shared && v == Happened)
}

// Taken is a reply to be recorded.
type Taken struct {
	Hash       string
	Digest     events.Digest // of what was posted
	Worker     string
	Verdict    Verdict
	Conclusion Conclusion
	Result     json.RawMessage
	Receipt    Receipt
	Artifacts  []Artifact
	// Messages makes the messages that follow; they are kept in the same
	// transaction and sent until they have landed.
	Messages func([]Call) ([]events.Message, error)
}

// Replies keeps the addresses and what is posted to them.
type Replies interface {
	// Awaited finds a ticket by the hash of its token; ErrNotFound.
	Awaited(ctx context.Context, hash string) (Awaited, error)
	// TakeReply records a reply once. It returns the ticket as it stands: it
	// holds the digest of the reply that was taken, and whether that counted.
	TakeReply(ctx context.Context, t Taken) (Awaited, error)
}

// newToken is 256 random bits in the letters of a path.
func newToken() string {
	var b [32]byte
	if _, err := rand.Read(b[:]); err != nil {
		panic("read random bytes: " + err.Error())
	}
	return base64.RawURLEncoding.EncodeToString(b[:])
}

func tokenHash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// replyWithin is how long a call of the tool waits for a callback; zero for
// tools without one.
func replyWithin(t *spec.Tool) time.Duration {
	if t.HTTP == nil || t.HTTP.Callback == nil {
		return 0
	}
	return t.HTTP.Callback.Within.Std()
}

// reachable reports why a call cannot be given an address for its callback. An
// address that is not known yet is an error: try again.
func (s *Service) reachable(j *job) error {
	if j.plan.ReplyWithin == 0 || j.plan.Problem != nil {
		return nil
	}
	if s.publicURL == nil {
		j.plan.Problem = problem(CodeNoPublicURL, "tool %s is answered by a callback, and this installation has no address for it; nothing was sent. Start the tools service with --tools-public-url", j.c.Tool)
		return nil
	}
	if s.publicURL() == "" {
		return fmt.Errorf("call %s: the address for its callback is not known yet", j.c.CallID)
	}
	return nil
}

// ticket makes an address for the attempt that begins.
func (s *Service) ticket(j *job, in *intent) Ticket {
	if j.plan.ReplyWithin == 0 || s.publicURL == nil {
		return Ticket{}
	}
	token := newToken()
	j.replyURL = s.publicURL() + ReplyPath + token
	return Ticket{Hash: tokenHash(token), Shared: j.plan.Policy == DoubtRetry, Continues: in.live}
}

// decideAwaiting handles an intent whose result is to be posted: the wait is a
// row, and no message or worker has it. over says that nothing came in time.
func decideAwaiting(s State, mine bool) (d Decision, over bool) {
	switch e := s.Effect; {
	case !mine && (s.Call == nil || s.Call.EffectID != e.ID):
		return Decision{Do: DoAttach}, false
	case s.Now.Before(e.ReplyUntil):
		return Decision{Do: DoRest}, false
	}
	return Decision{}, true
}

// Reply takes the result of a call from the other side. It is durable, and its
// answer on the way to the run, when nil is returned; the same reply again is
// nil too. ErrNotFound for a token that was never given out, ErrReplyTaken,
// ErrReplySignature, ErrBadReply.
func (s *Service) Reply(ctx context.Context, in Reply) error {
	if s.replies == nil {
		return fmt.Errorf("find callback: %w", ErrNotFound)
	}
	a, err := s.replies.Awaited(ctx, tokenHash(in.Token))
	if err != nil {
		return fmt.Errorf("find callback: %w", err)
	}
	e := a.Effect
	log := s.log.With(telemetry.KeyRunID, a.RunID, telemetry.KeyCallID, a.CallID, telemetry.KeyTool, e.Tool, telemetry.KeyEpoch, a.Epoch)
	tool, err := s.tools.Tool(ctx, e.Namespace, a.ToolDigest)
	if err != nil {
		return fmt.Errorf("find tool %s of call %s: %w", e.Tool, a.CallID, err)
	}
	kind, ok := s.kindOf(tool).(Replier)
	if !ok {
		return fmt.Errorf("tool %s of call %s: this release takes no callbacks for it", e.Tool, a.CallID)
	}
	began := s.now()
	out, err := kind.Reply(ctx, Request{Tool: tool, CallID: a.CallID, RunID: a.RunID, Namespace: e.Namespace, Args: e.Args, Key: e.Key}, in)
	if err != nil {
		log.WarnContext(ctx, "callback not taken", telemetry.KeyErr, err)
		return fmt.Errorf("callback of call %s: %w", a.CallID, err)
	}
	out = checkOutput(tool.OutputSchema, Class(tool.Effect), out)
	out.Receipt.Kind, out.Receipt.Callback, out.Receipt.Verdict = s.kindOf(tool).Name(), true, out.Verdict.String()
	out.Receipt.StartedAt, out.Receipt.DurationMs = began.UTC(), s.now().Sub(began).Milliseconds()
	if out.Error != nil {
		out.Receipt.Code, out.Receipt.Error = out.Error.Code, out.Error.Message
	}
	p := MakePlan(tool, events.CallTool{Tool: e.Tool, ToolDigest: a.ToolDigest, Args: e.Args, Key: e.Key})
	t := Taken{
		Hash: a.Hash, Digest: events.DigestOf(in.Body), Worker: s.worker, Verdict: out.Verdict, Receipt: out.Receipt,
		Conclusion: Conclude(out.Verdict, p, Claim{Doubted: a.Doubted}, out.Error, 0, began),
		Messages: func(calls []Call) (msgs []events.Message, err error) {
			for _, c := range calls {
				m, err := Completed(c)
				if err != nil {
					return nil, err
				}
				msgs = append(msgs, m)
			}
			return msgs, nil
		},
	}
	if t.Conclusion.State == EffectSucceeded {
		t.Result, t.Artifacts = out.Result, out.Artifacts
	}
	done, err := s.replies.TakeReply(ctx, t)
	if errors.Is(err, ErrUnstorable) {
		log.ErrorContext(ctx, "callback could not be stored as it is", telemetry.KeyErr, err)
		t.Artifacts, t.Receipt.Error, t.Conclusion.Error = nil, CodeUnstorable, unstorable(t.Conclusion.Error)
		if t.Result != nil {
			t.Result = []byte(`{"note":"it happened, but its result could not be stored"}`)
		}
		done, err = s.replies.TakeReply(ctx, t)
	}
	switch {
	case err != nil:
		return fmt.Errorf("record callback of call %s: %w", a.CallID, err)
	case !done.Applied || done.Digest != t.Digest:
		log.WarnContext(ctx, "callback came too late or says something else", "state", done.Effect.State)
		return ErrReplyTaken
	}
	log.InfoContext(ctx, "callback taken", "verdict", out.Verdict.String(), "state", done.Effect.State)
	s.kick()
	return nil
}
