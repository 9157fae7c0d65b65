package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/holdfast-run/holdfast/pkg/events"
)

var (
	// ErrTooLong says that a text has more than events.MessageBytes.
	ErrTooLong = errors.New("message is too long")
	// ErrUnread says that a run has events.UnreadMessages which its model has not read.
	ErrUnread = errors.New("too many unread messages")
	// ErrCancelling says that a run is being ended and reads nothing any more.
	ErrCancelling = errors.New("run is being cancelled")
	// ErrNoModel says that a run is a flow's: it has no model that could read.
	ErrNoModel = errors.New("run has no model")
)

// MessageStore keeps what is said to runs.
type MessageStore interface {
	// AddMessage inserts c behind the messages to the same run. When its Key was
	// used before, the stored command is returned instead; ErrKeyReused when that
	// one says something else. ErrNotFound, ErrEnded, ErrCancelling, ErrNoModel,
	// ErrProgram and ErrUnread are about the run.
	AddMessage(ctx context.Context, c Command) (stored Command, replayed bool, err error)
}

// Messages is what was said to a run, as far as a runner has it.
type Messages struct {
	All    int
	Unread int       // that no request has had
	Newest []Message // at most MaxRunMessages, the newest first
}

// Message is one text to a run's model.
type Message struct {
	Seq       int64 // row of the journal
	Principal string
	Text      string // its first MessageShown characters
	At        time.Time
	Read      bool
}

const (
	// MaxRunMessages is how many messages are shown with a run.
	MaxRunMessages = 20
	// MessageShown is how much of each.
	MessageShown = 500
)

// CheckMessage reports what is wrong with a text, in words for who says it.
// ErrTooLong when it is that.
func CheckMessage(text string) error {
	switch {
	case len(text) > events.MessageBytes:
		return fmt.Errorf("text has %d bytes; at most %d are taken, so say where the rest is: %w", len(text), events.MessageBytes, ErrTooLong)
	case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		return errors.New("text: use UTF-8 without NUL")
	case strings.TrimSpace(text) == "":
		return errors.New("text is blank; say something")
	}
	return nil
}

// Say records a message to a run's model and lets it be handed over. The same key
// returns the same command and replayed true.
func (s *Service) Say(ctx context.Context, namespace, principal, key string, run events.RunID, text string) (c Command, replayed bool, err error) {
	id, err := uuid.NewV7()
	if err != nil {
		return Command{}, false, err
	}
	raw, err := events.Marshal(events.SayRun{ID: id.String(), RunID: run, Text: text, Principal: principal})
	if err != nil {
		return Command{}, false, fmt.Errorf("marshal message: %w", err)
	}
	c, replayed, err = s.AddMessage(ctx, Command{ID: id.String(), Namespace: namespace, RunID: run, Kind: events.RunMessage, Principal: principal, Key: key, Body: raw})
	if err != nil {
		return Command{}, false, err
	}
	s.relay.Kick()
	return c, replayed, nil
}

// Behind is c as the message that comes after another to the same run.
func (c Command) Behind(after string) (Command, error) {
	var m events.SayRun
	err := json.Unmarshal(c.Body, &m)
	if err == nil {
		m.After = after
		c.Body, err = events.Marshal(m)
	}
	if err != nil {
		return c, fmt.Errorf("place message %s: %w", c.ID, err)
	}
	return c, nil
}
