package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console"
)

// Codes of what keeps a message from a run.
const (
	CodeUnread     = "messages_unread"
	CodeCancelling = "run_cancelling"
)

type messageInput struct {
	RunPath
	IdempotencyKey
	Body struct {
		Text string `json:"text" doc:"what the model reads in its next request; at most 32 KiB"`
	}
}

// Messages is what was said to a run's model.
type Messages struct {
	All    int       `json:"all"`
	Unread int       `json:"unread" doc:"that no request to the model has had"`
	Newest []Message `json:"newest" doc:"at most 20, the newest first"`
}

// Message is one text to a run's model.
type Message struct {
	Seq       int64     `json:"seq" doc:"number of its event"`
	Principal string    `json:"principal"`
	Text      string    `json:"text" doc:"its first 500 characters"`
	At        time.Time `json:"at"`
	Read      bool      `json:"read"`
}

func wireMessages(m console.Messages) *Messages {
	if m.All == 0 {
		return nil
	}
	out := &Messages{All: m.All, Unread: m.Unread, Newest: make([]Message, 0, len(m.Newest))}
	for _, n := range m.Newest {
		out.Newest = append(out.Newest, Message(n))
	}
	return out
}

func (a *api) messages() {
	op := command("messages", events.RunMessage, "Say something to the model of a run")
	op.Description = "202 means that the text is kept and will reach the run once, in the order of the answers. The model reads it in its next request: behind the answer that it is giving, " +
		"before the run ends, and not before what the run waits for has come. It answers no question and no approval. A run keeps 32 messages that its model has not read."
	op.Errors = []int{http.StatusConflict, http.StatusRequestEntityTooLarge}
	door.Register(a.door, op, authn.Operator, func(ctx context.Context, in *messageInput) (*commandOutput, error) {
		if err := console.CheckMessage(in.Body.Text); err != nil {
			if errors.Is(err, console.ErrTooLong) {
				return nil, door.Error(http.StatusRequestEntityTooLarge, door.CodeBodyTooLarge, err.Error())
			}
			return nil, door.Error(http.StatusUnprocessableEntity, door.CodeInvalidInput, err.Error()).At("body.text", err.Error())
		}
		p, _ := authn.FromContext(ctx)
		c, replayed, err := a.console.Say(ctx, p.Namespace, p.Name, in.Key, in.ID, in.Body.Text)
		if err != nil {
			return nil, unheard(err, in.ID)
		}
		return commanded(c, replayed), nil
	})
}

// unheard says why a run does not read a message, and what to do instead.
func unheard(err error, id events.RunID) error {
	switch {
	case errors.Is(err, console.ErrEnded):
		return door.Error(http.StatusConflict, CodeRunEnded, fmt.Sprintf(
			"run %[1]s has ended and reads nothing any more; to go on from it with a message: holdfast runs fork %[1]s --message TEXT; to try a failed run again: holdfast runs retry %[1]s", id))
	case errors.Is(err, console.ErrCancelling):
		return door.Error(http.StatusConflict, CodeCancelling, fmt.Sprintf("run %s is being cancelled and reads nothing any more; fork it once it has ended", id))
	case errors.Is(err, console.ErrNoModel):
		return door.Error(http.StatusConflict, CodeFlowRun, fmt.Sprintf("run %[1]s is a flow's: no model reads there; send the message to the run of a step: holdfast runs list --parent %[1]s", id))
	case errors.Is(err, console.ErrUnread):
		return door.Error(http.StatusConflict, CodeUnread, fmt.Sprintf("run %s has %d messages that its model has not read; send more once it has, see /v1/runs/%[1]s/why", id, events.UnreadMessages))
	}
	return problem(err, "run %s", id)
}
