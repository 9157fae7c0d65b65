package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// told maps kinds of rows to the reason that people may want to be told for.
var told = map[string]string{
	events.FactCompleted: events.NoticeCompleted,
	events.FactFailed:    events.NoticeFailed,
	events.FactExpired:   events.NoticeExpired,
	events.FactAttention: events.NoticeNeedsAttention,
}

// dueNotices lists what rows give reason to tell, whoever wants to be told. It is
// pure. A run has one notice for each reason, whatever happens twice; alerts of
// budgets are not among them, they have rows of their own.
func dueNotices(s *State, facts []Fact) []events.Notice {
	var out []events.Notice
	for _, f := range facts {
		if s.copied(f.Seq) {
			continue // another run told it
		}
		n := events.Notice{Reason: told[f.Kind]}
		switch f.Kind {
		case events.FactFailed, events.FactExpired, events.FactAttention:
			var e events.Ending
			if json.Unmarshal(f.Data, &e) == nil { // our own row
				n.Error = e.Error
			}
		case events.FactApprovalDecided:
			var d events.ApprovalDecision
			if json.Unmarshal(f.Data, &d) != nil || d.Decision != events.Expired {
				continue
			}
			n.Reason, n.ApprovalID = events.NoticeApprovalExpired, d.ApprovalID
			if c, ok := s.call(d.CallID); ok {
				n.Tool = c.Tool
			}
		}
		if n.Reason != "" {
			out = append(out, n)
		}
	}
	return out
}

// address completes notices for the run that executes ref, and drops those that
// nobody wants.
func address(found []events.Notice, run events.RunID, namespace string, ref events.Ref, wanted *spec.Notify) []events.Notice {
	var out []events.Notice
	for _, n := range found {
		if n.Channel = wanted.To(n.Reason); n.Channel == "" {
			continue
		}
		n.NoticeID, n.Namespace = events.RunNotice(run, n.Reason), namespace
		n.RunID, n.Kind, n.Name = run, ref.Kind, ref.Name
		out = append(out, n)
	}
	return out
}

// notify is what the definition says about notices.
func (p *Plan) notify() *spec.Notify {
	switch {
	case p.Agent != nil:
		return p.Agent.Notify
	case p.Flow != nil:
		return p.Flow.Notify
	}
	return nil
}

// asking is what the definition says about asking people.
func (p *Plan) asking() spec.Asking {
	switch {
	case p.Agent != nil:
		return p.Agent.Asking()
	case p.Flow != nil:
		return p.Flow.Asking()
	}
	return spec.Asking{}
}

// asksIn is the channel in which people are asked; empty for none.
func (p *Plan) asksIn() string { return p.asking().Approvals.To() }

func (s *Service) notices(ctx context.Context, st *State, facts []Fact) ([]events.Notice, error) {
	found := dueNotices(st, facts)
	if len(found) == 0 {
		return nil, nil
	}
	wanted, err := s.notify(ctx, st.Namespace, st.Started.Ref)
	return address(found, st.RunID, st.Namespace, st.Started.Ref, wanted), err
}

// notify is what the definition that a run executes says about notices. A run can
// be parked because its model or a tool is missing, so nothing else is read.
func (s *Service) notify(ctx context.Context, namespace string, ref events.Ref) (*spec.Notify, error) {
	var out *spec.Notify
	var err error
	if ref.Kind == events.KindFlow {
		var f *spec.Flow
		if f, err = s.defs.Flow(ctx, namespace, ref.Digest); err == nil {
			out = f.Notify
		}
	} else {
		var a *spec.Agent
		if a, err = s.defs.Agent(ctx, namespace, ref.Digest); err == nil {
			out = a.Notify
		}
	}
	if err != nil && !isMissing(err) {
		return nil, fmt.Errorf("find out who is to be told: %w", err)
	}
	return out, nil
}

// damageNotice is the notice of a run whose rows cannot be read; nil when nobody
// wants it.
func (s *Service) damageNotice(ctx context.Context, id events.RunID, d *DamagedError) (*events.Notice, error) {
	namespace, ref, err := s.store.RefOf(ctx, id)
	if err != nil {
		return nil, err
	}
	wanted, err := s.notify(ctx, namespace, ref)
	problem := d.Problem()
	for _, n := range address([]events.Notice{{Reason: events.NoticeNeedsAttention, Error: &problem}}, id, namespace, ref, wanted) {
		return &n, err
	}
	return nil, err
}

// KeptNotice is a row of a notice, with the alert that it is about.
type KeptNotice struct {
	ID                 events.NoticeID
	Namespace, Channel string
	At                 time.Time
	Announced          int
	Body               *string // of a run's notice
	// Of an alert's notice. Kind and Name are of the run whose ceiling it is.
	AlertID, Pool, Window, Unit, PassedBy, Kind, Name *string
	Percent                                           *int
	Limit, Used                                       *int64
	AlertAt                                           *time.Time
}

// NoticeMessage is what tells approvals about a notice; a function of its row.
func NoticeMessage(k KeptNotice) (events.Message, error) {
	var n events.Notice
	if k.Body != nil {
		if err := json.Unmarshal([]byte(*k.Body), &n); err != nil {
			return events.Message{}, fmt.Errorf("notice %s: %w", k.ID, err)
		}
	}
	n.NoticeID, n.Namespace, n.Channel, n.At = k.ID, k.Namespace, k.Channel, k.At.UTC()
	if k.AlertID != nil && k.Pool != nil {
		n.Reason = events.NoticeBudget
		n.Alert = &events.BudgetAlert{ID: *k.AlertID, Namespace: k.Namespace, Pool: *k.Pool, Window: *k.Window, Percent: *k.Percent, Limit: *k.Limit, Used: *k.Used, Unit: *k.Unit, At: k.AlertAt.UTC()}
		if strings.HasPrefix(*k.Pool, "run:") {
			n.RunID = events.RunID(*k.Window)
		} else if id, ok := events.FlowOfPool(*k.Pool); ok {
			n.RunID = id
		}
		n.Alert.RunID = n.RunID
		if k.PassedBy != nil {
			n.Alert.PassedBy = events.RunID(*k.PassedBy)
		}
		if k.Kind != nil {
			n.Kind, n.Name = *k.Kind, *k.Name
		}
	}
	id := "notify:" + string(n.NoticeID)
	return events.Message{Subject: events.NoticeSubject(n.NoticeID), MsgID: id, ID: id, Source: source, Type: events.TypeNotify,
		About: string(n.NoticeID), Time: n.At, Namespace: n.Namespace, Data: mustJSON(n)}, nil
}
