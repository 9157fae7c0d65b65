package approvals

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// ErrSignature says that a click does not come from where its channel is.
var ErrSignature = errors.New("the click is not signed by its channel")

// Click is a person's click on a message, as its channel signed it.
type Click struct {
	Ref    string // of the message's Asked
	Action string // of its Choice; empty when nothing of ours was clicked
	User   string // id of the person there
	Text   string
	Reply  string // where the person can be answered
}

// Clicks takes what people click in a channel.
type Clicks interface {
	// Claims is what an unverified click says it belongs to: only to find the secret
	// that it must be signed with.
	Claims(body []byte) (ref string)
	// Read verifies a click over its raw bytes and reads it; ErrSignature.
	Read(c *spec.Channel, h http.Header, body []byte, now time.Time) (Click, error)
	// Reply answers who clicked.
	Reply(ctx context.Context, c *spec.Channel, k Click, a Answer) Delivery
}

// Answer is what a person reads after a click, alone.
type Answer struct {
	Text    string
	Link    string // to a page of the person's own; empty for none
	Instead bool   // everybody reads it, in the message's place
}

// Channels is what decisions in channels need.
type Channels struct {
	Definition func(ctx context.Context, namespace, name string) (*spec.Channel, error)
	Clicks     Clicks
}

// refOf is what a message's buttons carry: which request, and what was shown
// in which channel.
func refOf(r Request, channel string) string {
	return strings.Join([]string{r.Namespace, channel, string(r.ID), string(r.Digest)}, " ")
}

// Click decides what a person clicked. After a nil error the click is answered:
// the decision is committed, or the person is about to be told why it took no
// effect. ErrSignature, or an error that a repeat may cure.
func (s *Service) Click(ctx context.Context, h http.Header, body []byte) error {
	if s.channels.Clicks == nil {
		return ErrSignature
	}
	parts := strings.Split(s.channels.Clicks.Claims(body), " ")
	if len(parts) != 4 || !spec.ValidNamespace(parts[0]) || !spec.ValidName(parts[1]) {
		return ErrSignature
	}
	c, err := s.channel(ctx, parts[0], parts[1])
	if errors.Is(err, ErrNoChannel) {
		return ErrSignature
	}
	if err != nil {
		return fmt.Errorf("channel of a click: %w", err)
	}
	k, err := s.channels.Clicks.Read(c, h, body, time.Now())
	if err != nil {
		return err
	}
	if parts = strings.Split(k.Ref, " "); len(parts) != 4 || k.Action == "" {
		return nil // a click on something that decides nothing
	}
	who, ok := c.PersonOf(k.User)
	if !ok {
		s.reply(c, k, Answer{Text: "You are not among the people of this channel who may decide; nothing was done."})
		return nil
	}
	r, err := s.reader.Get(ctx, parts[0], events.ApprovalID(parts[2]))
	if errors.Is(err, ErrNotFound) || err == nil && !r.AskedIn(parts[1]) {
		s.reply(c, k, Answer{Text: "There is no such request in this channel; nothing was done."})
		return nil
	}
	if err != nil {
		return fmt.Errorf("request of a click: %w", err)
	}
	if is, err := s.more(ctx, c, r, personOf(who), k); is {
		return err
	}
	a := attemptOf(r, k)
	a.Digest, a.By, a.Groups, a.Role, a.Door = events.Digest(parts[3]), who.Name, who.Groups, roleApprover, DoorSlack
	done, _, err := s.Decide(ctx, a)
	lost, conflict := errors.AsType[*Conflict](err)
	switch {
	case err == nil && !done.Ended():
		s.reply(c, k, Answer{Text: "Your yes is counted (" + VotesText(done) + "); it waits for others."})
		return nil
	case err == nil:
		if c.Slack != nil && c.Slack.Token.IsZero() { // nothing else can change the message
			s.reply(c, k, Answer{Text: done.Title() + "\n" + EndedText(done), Instead: true})
		}
		return nil
	case conflict, errors.Is(err, ErrInvalid), errors.Is(err, ErrNotFound):
		text := err.Error()
		if conflict && lost.Outcome == Lost {
			text = "Too late: " + EndedText(lost.Request) + "; your click changed nothing."
			if c.Slack != nil && c.Slack.Token.IsZero() { // decided elsewhere: this is the first chance to take its buttons away
				s.reply(c, k, Answer{Text: lost.Request.Title() + "\n" + EndedText(lost.Request), Instead: true})
			}
		}
		s.reply(c, k, Answer{Text: text})
		return nil
	}
	return err
}

// attemptOf is what a click decides.
func attemptOf(r Request, k Click) Attempt {
	a := Attempt{ID: r.ID, Namespace: r.Namespace, Decision: k.Action, Comment: k.Text}
	answer := func(text string) json.RawMessage {
		raw, err := events.Marshal(text)
		if err != nil {
			return nil
		}
		return raw
	}
	switch i, isChoice := strings.CutPrefix(k.Action, ChoiceAction); {
	case isChoice:
		a.Decision, a.Comment = events.Answered, ""
		if n, err := strconv.Atoi(i); err == nil && r.Question != nil && n >= 0 && n < len(r.Question.Choices) {
			a.Result = answer(r.Question.Choices[n])
		}
	case k.Action == AnswerAction:
		a.Decision, a.Comment, a.Result = events.Answered, "", answer(k.Text)
		// A question that wants no text may be answered in JSON.
		if r.Question != nil && unfit(r.Question, a.Result) != "" && json.Valid([]byte(k.Text)) {
			a.Result = json.RawMessage(k.Text)
		}
	}
	return a
}

// reply answers a person after the click itself was answered. It is dropped when
// too many wait: the record has everything.
func (s *Service) reply(c *spec.Channel, k Click, a Answer) {
	a.Text = clean(a.Text, maxShown, true)
	select {
	case s.replies <- func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, attemptTime)
		defer cancel()
		if d := s.channels.Clicks.Reply(ctx, c, k, a); d.Verdict != Taken {
			s.log.WarnContext(ctx, "a click was not answered in its channel", "channel", c.Name, "reason", clean(d.Problem, 300, false))
		}
	}:
	default:
		s.log.Warn("a click is not answered in its channel: too many wait", telemetry.KeyNamespace, c.Namespace, "channel", c.Name)
	}
}

// answerClicks makes the replies until ctx ends.
func (s *Service) answerClicks(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case f := <-s.replies:
			f(ctx)
		}
	}
}
