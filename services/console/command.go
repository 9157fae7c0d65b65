package console

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Command is an operator's order about one run.
type Command struct {
	ID        string
	Namespace string
	RunID     events.RunID
	Kind      string // events.RunCancel, RunPause, RunResume, RunRaiseBudget, RunSignal, RunFork, RunMessage or RunMigrate
	Principal string
	// Key is the caller's Idempotency-Key; the same key is the same command.
	Key string
	// Body is events.Command, Signal for RunSignal, ForkRun, SayRun or MigrateRun.
	Body          json.RawMessage
	CreatedAt     time.Time
	AnnounceCount int
	Landed        bool
	// Place is which of the commands and messages to the run it is, in the order in
	// which they were taken; zero: it has none. See Placed.
	Place int
}

// Placed reports whether c gets a Place: of two such commands the later one holds,
// in whichever order they reach the run.
func (c Command) Placed() bool {
	switch c.Kind {
	case events.RunPause, events.RunResume, events.RunRaiseBudget:
		return true
	}
	return false
}

// Order is what an operator asks for.
type Order struct {
	Kind    string
	Reason  string
	Budget  string          // RunRaiseBudget: toolCalls, modelCalls, tokens, steps, cost (micro-dollars), wallTime (seconds) or pool:<name>
	To      int64           // RunRaiseBudget: the new ceiling
	Signal  string          // RunSignal: its name
	WaitKey string          // RunSignal: the key of the wait that may take it; empty for any
	Data    json.RawMessage // RunSignal
}

// Check reports what is wrong with an order, in words for the operator.
func (o Order) Check() error {
	if len(o.Reason) > 1000 {
		return fmt.Errorf("reason has %d bytes; at most 1000 are kept", len(o.Reason))
	}
	switch o.Kind {
	case events.RunCancel, events.RunPause, events.RunResume, OrderRetry:
		return nil
	case events.RunRaiseBudget:
		if o.To <= 0 {
			return fmt.Errorf("to is %d; give the new ceiling, a number over 0", o.To)
		}
		pool, isPool := strings.CutPrefix(o.Budget, "pool:")
		if isPool && events.ValidToken(pool) {
			return nil
		}
		switch o.Budget {
		case "toolCalls", "modelCalls", "tokens", "steps", "cost", "wallTime":
			return nil
		}
		return fmt.Errorf(`budget %q is unknown; use toolCalls, modelCalls, tokens, steps, cost, wallTime or pool:<name>`, o.Budget)
	case events.RunSignal:
		if !events.ValidToken(o.Signal) {
			return fmt.Errorf("signal name %q: use 1 to 120 of A-Z a-z 0-9 _ -", o.Signal)
		}
		if !utf8.ValidString(o.WaitKey) || strings.ContainsRune(o.WaitKey, 0) || len(o.WaitKey) > events.SignalKeyBytes {
			return fmt.Errorf("signal key: use text of at most %d bytes without NUL", events.SignalKeyBytes)
		}
		if len(o.Data) > events.SignalDataBytes {
			return fmt.Errorf("data has %d bytes; a signal carries at most %d", len(o.Data), events.SignalDataBytes)
		}
		if _, err := events.Canonical(o.Data); len(o.Data) > 0 && err != nil {
			return fmt.Errorf("data: %w", err)
		}
		return nil
	}
	return fmt.Errorf("command %q is unknown", o.Kind)
}

// command is the row that an order becomes.
func (o Order) command(id, namespace, principal, key string, run events.RunID) (Command, error) {
	var body any = events.Command{ID: id, RunID: run, Principal: principal, Reason: o.Reason, Budget: o.Budget, To: o.To}
	if o.Kind == events.RunSignal {
		body = events.Signal{ID: id, RunID: run, Name: o.Signal, Key: o.WaitKey, Data: o.Data, Principal: principal}
	}
	raw, err := events.Marshal(body)
	if err != nil {
		return Command{}, fmt.Errorf("marshal command: %w", err)
	}
	return Command{ID: id, Namespace: namespace, RunID: run, Kind: o.Kind, Principal: principal, Key: key, Body: raw}, nil
}

// Same reports whether c orders the same as other: a repeat of one key may
// differ in nothing but the id.
func (c Command) Same(other Command) bool {
	return (c.RunID == other.RunID || c.Kind == events.RunFork) && c.Kind == other.Kind && c.essence() == other.essence()
}

func (c Command) essence() string {
	var m map[string]json.RawMessage
	if json.Unmarshal(c.Body, &m) != nil {
		return string(c.Body)
	}
	delete(m, "id")
	delete(m, "principal")
	delete(m, "after")
	if _, current := m["current"]; current && c.Kind == events.RunMigrate {
		delete(m, "to") // what the name meant then
	}
	if c.Kind == events.RunFork { // what each order gets anew
		delete(m, "run_id")
		delete(m, "ref")
		delete(m, "accepted_at")
	}
	raw, err := events.Marshal(m)
	if err != nil {
		return string(c.Body)
	}
	if canonical, err := events.Canonical(raw); err == nil {
		return string(canonical)
	}
	return string(raw)
}

// Cause is the logical id of the message, which the runner records.
func (c Command) Cause() string {
	if c.Kind == events.RunSignal {
		return "signal:" + c.ID
	}
	return "command:" + c.ID
}

// Announcement is the message that hands c to the runner, under msgID.
func Announcement(c Command, msgID string) events.Message {
	typ, body := events.TypeCommandRun, c.Body
	if c.Placed() {
		body = c.inPlace()
	}
	switch c.Kind {
	case events.RunSignal:
		typ = events.TypeSignalRun
	case events.RunFork:
		typ = events.TypeForkRun
	case events.RunMessage:
		typ = events.TypeSayRun
	case events.RunMigrate:
		typ = events.TypeMigrateRun
	}
	return events.Message{
		Subject:   events.RunSubject(c.RunID, c.Kind),
		MsgID:     msgID,
		ID:        c.Cause(),
		Source:    "/services/console",
		Type:      typ,
		About:     string(c.RunID),
		Time:      c.CreatedAt,
		Namespace: c.Namespace,
		Data:      body,
	}
}

// inPlace is the body with c's place, which the door gave it when it was stored.
func (c Command) inPlace() json.RawMessage {
	var body events.Command
	if json.Unmarshal(c.Body, &body) != nil {
		return c.Body
	}
	body.Place = c.Place
	raw, err := events.Marshal(body)
	if err != nil {
		return c.Body
	}
	return raw
}
