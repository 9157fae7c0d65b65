package tools

import (
	"context"
	"fmt"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// source is the ce-source of what this service publishes.
const source = "/services/tools"

// Completed is the message that tells a run about its call. It is a pure
// function of the row, so it can be sent again at any time.
func Completed(c Call) (events.Message, error) {
	body, err := events.Marshal(events.ToolCompleted{
		CallID: c.ID, RunID: c.RunID, Tool: c.Tool, Status: c.Status, Result: c.Result, Error: c.Error,
		Key: c.Key, Epoch: c.Epoch, InDoubt: c.InDoubt, Replayed: c.Replayed, Settled: c.SettledBy, Worker: c.AnsweredBy,
	})
	if err != nil {
		return events.Message{}, fmt.Errorf("encode answer of call %s: %w", c.ID, err)
	}
	id := fmt.Sprintf("tool:%s:%s:%d", c.ID, c.Status, c.Epoch)
	return events.Message{
		Subject: events.RunSubject(c.RunID, events.RunToolCompleted),
		MsgID:   id, ID: id, Source: source, Type: events.TypeToolCompleted, About: string(c.ID),
		Time: c.UpdatedAt.UTC(), Namespace: c.Namespace, TraceParent: c.TraceParent, Data: body,
	}, nil
}

// Again is the call's own message, to be handled once more. suffix makes its
// message id fresh.
func Again(c Call, suffix string) (events.Message, error) {
	body, err := events.Marshal(events.CallTool{
		CallID: c.ID, RunID: c.RunID, Namespace: c.Namespace, Tool: c.Tool, ToolDigest: c.ToolDigest,
		Args: c.Args, ArgsDigest: c.ArgsDigest, Key: c.MintedKey, Approval: c.Approval, Rule: c.Rule,
	})
	if err != nil {
		return events.Message{}, fmt.Errorf("encode call %s: %w", c.ID, err)
	}
	id := "call:" + string(c.ID)
	return events.Message{
		Subject: events.ToolSubject(c.Pool, c.ID),
		MsgID:   id + ":" + suffix, ID: id, Source: source, Type: events.TypeCallTool, About: string(c.ID),
		Time: c.UpdatedAt.UTC(), Namespace: c.Namespace, TraceParent: c.TraceParent, Data: body,
	}, nil
}

// announce publishes the answers of calls; open ones have none. With a suffix
// the message ids are fresh, so that no dedupe window swallows a repeat.
func (s *Service) announce(ctx context.Context, calls []Call, suffix string) error {
	for _, c := range calls {
		if c.Status == CallOpen {
			continue
		}
		m, err := Completed(c)
		if err != nil {
			return err
		}
		if suffix != "" {
			m.MsgID += ":" + suffix
		}
		if err := s.bus.Publish(ctx, m); err != nil {
			return fmt.Errorf("publish answer of call %s: %w", c.ID, err)
		}
	}
	return nil
}
