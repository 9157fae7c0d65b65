package e2e

import (
	"fmt"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// TestFailpoints kills one process of each service at every other place that
// the services name, and starts it again. Errands follow one another until one
// has met the place, so only that one is in the process when it dies.
func TestFailpoints(t *testing.T) {
	t.Parallel()
	d := deploy(t, fresh(t)).runners(2)
	for n, tc := range []struct {
		process, point string
		lost           int // model calls that must be made again
	}{
		{"runner-1", "runner.claimed", 0},          // not asked yet
		{"runner-1", "runner.answered", 1},         // answered, not recorded
		{"runner-1", "runner.answer_committed", 0}, // recorded, its call not sent
		{"runner-1", "runner.committed", 0},
		{"runner-1", "runner.published", 0},
		{"tools", "tools.intent[pay ]", 0},
		{"tools", "tools.recorded[pay ]", 0},
		{"tools", "tools.recorded[order ]", 0},
		{"trigger", "trigger.published", 0},
		{"approvals", "approvals.published", 0},
	} {
		t.Run(tc.point, func(t *testing.T) { d.killAt(t, tc.process, tc.point, fmt.Sprintf("at-%d", n), tc.lost) })
	}
	t.Run("console.published", func(t *testing.T) { killConsole(t, d) })
	t.Run("deletion", func(t *testing.T) { deleteUnderKills(t, d) })
}

func (d *deployment) killAt(t *testing.T, name, point, jobs string, lost int) {
	t.Helper()
	if name == "trigger" { // one from before that is announced once more would be the one that kills
		until(t, "the starts before to have landed", func() bool {
			return d.count(t, `SELECT count(*) FROM trigger.v_deliveries WHERE landed_at IS NULL`) == 0
		})
	}
	d.process(name).term(t)
	armed := d.armed(name, point+"=kill")
	dead := func() bool {
		select {
		case <-armed.done:
			return true
		default:
			return false
		}
	}
	started := map[events.RunID]job{}
	var unanswered []job // their sender had no answer before the process was gone
	for i := 0; !dead(); i++ {
		if i == 40 {
			t.Fatalf("%d errands and nobody came by %s", i, point)
		}
		j := job{Job: fmt.Sprintf("%s-%d", jobs, i), Do: []string{"pay", "order"}}
		s, err := d.operator.Start(t.Context(), j.request()) // repeats itself when there is no answer
		if err != nil {
			until(t, fmt.Sprintf("%s to be gone, since it said %v", name, err), dead)
			unanswered = append(unanswered, j)
			break
		}
		id := s.RunID
		started[id] = j
		asked := false
		until(t, "the end of an errand, or of "+name, func() bool {
			if !asked {
				asked = d.sayYes(t, id)
			}
			r, err := d.operator.Run(t.Context(), id)
			return dead() || err == nil && events.Ended(r.Status)
		})
	}
	armed.ended(t)
	d.start(name)
	for _, j := range unanswered {
		started[d.startJob(t, j)] = j
	}
	again := 0
	for id, j := range started {
		until(t, "a yes to "+j.Job, func() bool {
			r, err := d.operator.Run(t.Context(), id)
			return d.sayYes(t, id) || err == nil && events.Ended(r.Status)
		})
		d.runOf(t, id, events.StatusCompleted)
		extra := d.out.model.Count(string(id)).Requests - len(j.Do) - 1
		again += extra
		d.finished(t, id, j, extra)
		if n := len(d.out.of("order", j.Job)); n != 1 {
			t.Errorf("the order of %s arrived %d times", j.Job, n)
		}
	}
	if again != lost {
		t.Errorf("%d model calls were made again, want %d", again, lost)
	}
}

// sayYes answers the open question of a run, if there is one.
func (d *deployment) sayYes(t *testing.T, id events.RunID) bool {
	t.Helper()
	page, err := d.approver.Approvals(t.Context(), client.ApprovalFilter{Run: id, Kind: events.ApprovalAction}, client.PageRequest{})
	if err != nil || len(page.Items) == 0 {
		return false
	}
	_, err = d.approver.Decide(t.Context(), page.Items[0].ApprovalID, client.Decision{Decision: "approve"})
	return err == nil
}

// killConsole loses a console right after it published a command.
func killConsole(t *testing.T, d *deployment) {
	j := job{Job: "cancelled-by-the-dead", Do: []string{"order"}}
	id := d.startJob(t, j)
	question := d.approval(t, id, events.ApprovalAction)
	d.process("console").term(t)
	armed := d.armed("console", "console.published=kill")
	// The command is committed before it is published, so the answer may be out
	// or lost; a repeat by the client is another command and does no harm.
	_, err := d.once(t).Cancel(t.Context(), id, "changed my mind")
	armed.ended(t)
	d.start("console")
	d.runOf(t, id, events.StatusCancelled)
	if n := d.count(t, `SELECT count(*) FROM runner.v_events WHERE run_id = $1 AND kind = $2`, string(id), events.FactCancelRequested); n != 1 {
		t.Errorf("the run took %d commands (answer: %v), want 1", n, err)
	}
	if n := d.out.effects("order", j.Job); n != 0 {
		t.Errorf("%d orders of a cancelled run", n)
	}
	until(t, "the question to be withdrawn", func() bool {
		a, err := d.approver.Approval(t.Context(), question.ApprovalID)
		return err == nil && a.State == events.Withdrawn
	})
}
