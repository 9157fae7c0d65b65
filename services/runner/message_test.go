package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/internal/scriptmodel"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/runner"
)

// keyed names each conversation by what key says now: where a request may end
// otherwise than one whose answer was lost, it is a conversation of its own.
func keyed(key *string, f answers) scriptmodel.Config {
	c := scripted(f)
	c.Key = func(scriptmodel.Request) string { return *key }
	return c
}

// say hands a message to the run, as its door does.
func (l *loop) say(n int, text string) {
	m := events.SayRun{ID: fmt.Sprintf("m%d", n), RunID: l.state.RunID, Text: text, Principal: "ada"}
	l.decide(runner.Input{Cause: "command:" + m.ID, Type: events.TypeSayRun, Say: &m, Original: &m})
}

// prefixes folds each prefix of the journal as after a crash: where it owes a model
// call, the request is one that the provider's strict validator takes.
func (l *loop) prefixes(key *string, plan func(*runner.State) *runner.Plan) (checked int) {
	l.t.Helper()
	for n := 1; n <= len(l.journal); n++ {
		st := runner.NewState(l.state.RunID, "default")
		for _, f := range l.journal[:n] {
			if err := st.Apply(f); err != nil {
				l.t.Fatal(err)
			}
		}
		if !st.OwesModelCall() {
			continue
		}
		*key = fmt.Sprintf("prefix %d", n)
		r, err := runner.NextRequest(st, plan(st), 9)
		if err == nil {
			_, err = l.model.Answer(l.t.Context(), r)
		}
		if err != nil {
			l.t.Errorf("row %d: %v", n, err)
		}
		checked++
	}
	for _, v := range l.server.Violations() {
		l.t.Errorf("%s, turn %d: %s", v.Key, v.Turn, v.Message)
	}
	return checked
}

// People say things at any moment to a run whose workers die and whose messages
// come twice: each text is read once and in order, nothing that was sent changes
// behind the provider's cache, and every prefix rebuilds a valid history.
func TestMessage_EveryPrefixIsAccepted(t *testing.T) {
	onEachProvider(t, func(t *testing.T, provider string) {
		checked, meanwhile := 0, 0
		for seed := range uint64(10) {
			key := "run"
			l := newLoop(t, provider, fmt.Sprintf("run %d", seed), keyed(&key, func(r scriptmodel.Request) scriptmodel.Answer {
				if r.Turn() > 5 {
					return saying("done")
				}
				return anyAnswer(provider, seed, r.Turn(), r)
			}))
			l.dice = rand.New(rand.NewPCG(seed, 7))
			var said []string
			say := func() {
				if len(said) == 8 {
					return
				}
				said = append(said, fmt.Sprintf("%d: <é> \"12345678901234567890\" ${input} </user> {\"role\":\"system\"} %d", len(said), seed))
				l.say(len(said), said[len(said)-1])
				key = fmt.Sprintf("run, after %d messages", len(said))
			}
			l.meanwhile = func() {
				if l.dice.IntN(2) == 0 {
					say()
					meanwhile++
				}
			}
			l.tool = func(c *runner.Call) events.ToolCompleted {
				if l.dice.IntN(3) == 0 {
					say() // while the run waits for its calls
				}
				return events.ToolCompleted{CallID: c.CallID, RunID: l.state.RunID, Tool: c.Tool, Status: events.CallSucceeded, Result: json.RawMessage(`"found"`)}
			}
			var last, final []runner.Entry
			l.answered = func(r runner.Request) {
				if n := len(last); n > len(r.Entries) || n > 0 && !cmp.Equal(last, r.Entries[:n]) {
					t.Errorf("seed %d: an answered request is no prefix of a later one: %s", seed, cmp.Diff(last, r.Entries))
				}
				last, final = r.Entries, r.Entries
				if a := l.state.Turns[len(l.state.Turns)-1].Answer; len(a.Calls) == 0 && strings.TrimSpace(a.Text) == "" {
					last = last[:len(last)-1] // nothing was said to it, so its end may still grow
				}
			}
			l.run()
			if all, unread := l.state.Heard(); all != len(said) || unread != 0 && l.state.End == events.StatusCompleted {
				t.Errorf("seed %d: %d of %d messages are there, %d unread at the end", seed, all, len(said), unread)
			}
			if l.state.End == events.StatusCompleted {
				var users string
				for _, e := range final {
					users += e.User + "\n\n"
				}
				if got := strings.Join(said, "\n\n"); len(said) > 0 && strings.Count(users, " </user> ") != len(said) || !inOrder(users, said) {
					t.Errorf("seed %d: the model read %q, said was %q", seed, users, got)
				}
			}
			checked += l.prefixes(&key, func(*runner.State) *runner.Plan { return l.plan })
			if t.Failed() {
				t.Fatalf("the journal of seed %d:\n%s", seed, l.text())
			}
		}
		if checked < 40 || meanwhile < 10 {
			t.Errorf("only %d histories were checked, %d messages came while the model answered", checked, meanwhile)
		}
	})
}

func inOrder(text string, parts []string) bool {
	for _, p := range parts {
		i := strings.Index(text, p)
		if i < 0 {
			return false
		}
		text = text[i+len(p):]
	}
	return true
}

// What is said while the model gives its last answer is read before the run ends;
// what is said to a paused run waits for the resume; to a cancelled or ended one
// nothing is said.
func TestMessage_LastAnswerPauseAndEnd(t *testing.T) {
	key := "run"
	l := newLoop(t, allProviders[0], "x", keyed(&key, func(r scriptmodel.Request) scriptmodel.Answer { return saying(fmt.Sprint("answer ", r.Turn())) }))
	asked := 0
	l.meanwhile = func() {
		if asked++; asked == 1 {
			l.say(1, "wait")
			l.decide(runner.Input{Cause: "command:p", What: events.RunPause, Command: &events.Command{ID: "p"}})
		}
	}
	l.run()
	if l.state.End != "" || l.state.Pause == nil {
		t.Fatalf("a run with an unread message ended, or goes on while paused:\n%s", l.text())
	}
	l.say(2, "and this")
	l.decide(runner.Input{Cause: "command:r", What: events.RunResume, Command: &events.Command{ID: "r"}})
	l.run()
	if l.state.End != events.StatusCompleted || asked != 2 || string(l.state.Ending.Output) != `"answer 1"` {
		t.Errorf("after %d requests the run is %s with %s:\n%s", asked, l.state.End, l.state.Ending.Output, l.text())
	}
	rows := len(l.journal)
	l.say(3, "too late")
	if late := l.journal[rows:]; len(late) != 1 || late[0].Kind != events.FactLateResult || !strings.Contains(string(late[0].Data), "too late") {
		t.Errorf("said to an ended run:\n%s", l.text())
	}
	if _, unread := l.state.Heard(); unread != 0 {
		t.Errorf("%d unread", unread)
	}

	c := newLoop(t, allProviders[0], "y", scripted(func(scriptmodel.Request) scriptmodel.Answer {
		return asking(scriptmodel.Call("look", json.RawMessage(`{"id":1}`)))
	}))
	c.step(t.Context())
	c.decide(runner.Input{Cause: "command:c", What: events.RunCancel, Command: &events.Command{ID: "c"}})
	c.say(1, "hello")
	if kind := c.journal[len(c.journal)-1].Kind; kind != events.FactLateResult {
		t.Errorf("said to a run that is cancelled: %s", kind)
	}
}

// Messages to a run on two workers come in the wrong order and twice, while the
// model answers and while a person is asked: they are recorded in the order in which
// they were taken, and the question is not answered by them.
func TestMessage_OrderOnTwoWorkers(t *testing.T) {
	r := newRig(t)
	asked := make(chan struct{})
	release := make(chan struct{})
	var last []runner.Entry
	m := &script{answer: func(_ context.Context, q runner.Request, n int) (runner.Answer, error) {
		last = q.Entries
		switch n {
		case 1:
			close(asked)
			<-release
			return asks(runner.ModelCall{Tool: "change"}), nil
		}
		return said("done"), nil
	}}
	r.worker(m)
	r.worker(m)
	r.tools(`"ok"`)
	questions := r.approvals("")
	id := r.start(events.KindAgent, "clerk", `{}`)
	<-asked
	say := func(n int, nudge string) {
		b := events.SayRun{ID: fmt.Sprintf("m%d-%s", n, id), RunID: id, Text: fmt.Sprintf("text %d", n), Principal: "ada"}
		if n > 1 {
			b.After = fmt.Sprintf("m%d-%s", n-1, id)
		}
		r.publish(events.RunSubject(id, events.RunMessage), "command:"+b.ID, events.TypeSayRun, b, nudge)
	}
	for _, n := range []int{4, 3, 2} {
		say(n, "")
	}
	say(1, "")
	heard := func() (got []string) {
		for _, row := range r.journal(id) {
			if row.Kind == events.FactMessage {
				var b events.SayRun
				if err := json.Unmarshal(row.Data, &b); err != nil {
					t.Fatal(err)
				}
				got = append(got, b.Text+" by "+b.Principal)
			}
		}
		return got
	}
	r.eventually("all are recorded", func() bool { return len(heard()) == 4 }, func() string { return r.journalText(id) })
	close(release)
	r.eventually("a person is asked", func() bool { return len(questions.all()) == 1 }, func() string { return r.journalText(id) })
	for n := range 5 {
		say(n+1, ":again")
	}
	r.eventually("the fifth is recorded", func() bool { return len(heard()) == 5 }, func() string { return r.journalText(id) })
	if got := r.status(id); got != events.StatusWaiting {
		t.Errorf("a message made the waiting run %s", got)
	}
	var all, unread, reader int
	if err := r.sql.QueryRow(t.Context(), `SELECT v.messages, v.messages_unread, r.min_reader FROM runner.v_control v JOIN runner.runs r USING (run_id) WHERE run_id = $1`, string(id)).Scan(&all, &unread, &reader); err != nil || all != 5 || unread != 5 || reader != 3 {
		t.Errorf("the view has %d messages, %d unread, reader %d (%v)", all, unread, reader, err)
	}
	r.decide(questions.all()[0], events.Approve)
	r.reaches(id, events.StatusCompleted)
	if want := []string{"text 1 by ada", "text 2 by ada", "text 3 by ada", "text 4 by ada", "text 5 by ada"}; !slices.Equal(heard(), want) {
		t.Errorf("recorded %q, want %q", heard(), want)
	}
	if len(last) != 3 || last[2].User != "text 1\n\ntext 2\n\ntext 3\n\ntext 4\n\ntext 5" || len(last[2].Results) != 1 {
		t.Errorf("the model read %+v", last)
	}
	r.consistent(id)
	r.drained()
}
