package runner

import (
	"fmt"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// DecodeInput reads the body that the last token of the subject announces.
func DecodeInput(m events.Received, what string) (Input, error) {
	in := Input{Cause: m.ID, Type: m.Type, What: what}
	switch what {
	case events.RunStart:
		body := new(events.StartRun)
		if err := events.Decode(m.Message, body); err != nil {
			return Input{}, err
		}
		in.Original = body
		in.Start = &Start{InputRef: body.InputRef, Deadline: body.Deadline, Body: events.RunStarted{
			Ref: body.Ref, Input: body.Input, Labels: body.Labels, Trigger: body.Trigger, Principal: body.Principal,
			Parent: body.Parent, Callback: body.Callback, AcceptedAt: body.AcceptedAt, Priority: body.Priority,
		}}
		return in, nil
	case events.RunToolCompleted:
		in.Tool = new(events.ToolCompleted)
		in.Original = in.Tool
	case events.RunApprovalDecided:
		in.Decided = new(events.ApprovalDecision)
		in.Original = in.Decided
	case events.RunChildCompleted:
		in.Child = new(events.ChildCompleted)
		in.Original = in.Child
	case events.RunTimerFired:
		in.Timer = new(events.TimerFired)
		in.Original = in.Timer
	case events.RunSignal:
		in.Signal = new(events.Signal)
		in.Original = in.Signal
	case events.RunFork:
		in.Fork = new(events.ForkRun)
		in.Original = in.Fork
	case events.RunMessage:
		in.Say = new(events.SayRun)
		in.Original = in.Say
	case events.RunMigrate:
		in.Move = new(Move)
		in.Original = &in.Move.MigrateRun
	case events.RunCancel, events.RunPause, events.RunResume, events.RunRaiseBudget:
		in.Command = new(events.Command)
		in.Original = in.Command
	default:
		return Input{}, fmt.Errorf("a run has no use for %q", what)
	}
	return in, events.Decode(m.Message, in.Original)
}
