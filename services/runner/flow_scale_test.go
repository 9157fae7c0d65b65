package runner

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// work is what ends of children cost their parent.
type work struct{ rows, rowBytes, messages, messageBytes, alloc int }

// endChildren ends n children of the step, each with an output, and does with
// the decision what a process does: it says what goes out and what is waited for.
func endChildren(f *flow, n int) (w work) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range n {
		var item *Item
		for _, it := range f.s.Items {
			item = it
			break
		}
		end := events.ChildCompleted{RunID: testRun, Item: item.Item, Child: item.RunID, Status: events.StatusCompleted, Output: mustJSON(strings.Repeat("y", 1000))}
		d, err := Decide(f.s, f.plan, childInput(end), "w", f.now)
		if err != nil {
			f.Fatal(err)
		}
		_, _ = d.State.PendingItems(), d.State.Waiting()
		for _, fact := range d.Facts {
			out, err := Outgoing(d.State, f.plan, fact)
			if err != nil {
				f.Fatal(err)
			}
			w.rows++
			w.rowBytes += len(fact.Data)
			w.messages += len(out)
			for _, m := range out {
				w.messageBytes += len(m.Data)
			}
		}
		f.s = d.State
	}
	runtime.ReadMemStats(&after)
	w.alloc = int(after.TotalAlloc - before.TotalAlloc)
	return w
}

// The thousandth child of a flow costs its parent what the tenth did: rows,
// messages and memory depend on the window, not on what the step has done so far
// nor on the length of its list. It is not parallel: it counts allocations.
func TestFlow_AnEndCostsTheSameThroughout(t *testing.T) {
	var items []string
	for i := range 1000 {
		items = append(items, fmt.Sprintf(`{"id":%d,"fill":"%s"}`, i+1000, strings.Repeat("x", 300)))
	}
	f := newFlow(t, `
  steps:
    - {name: each, agent: a, forEach: "${input.items}", limit: 10, input: {id: "${item.id}", fill: "${item.fill}", night: "${input.night}"}}
`, `{"night":"n","items":[`+strings.Join(items, ",")+`]}`, nil)
	endChildren(f, 50)
	early := endChildren(f, 100)
	endChildren(f, 680)
	late := endChildren(f, 100)
	t.Logf("an end early: %d bytes of rows, %d of messages, %d allocated; late: %d, %d, %d", early.rowBytes/100, early.messageBytes/100, early.alloc/100,
		late.rowBytes/100, late.messageBytes/100, late.alloc/100)
	if early.rows != 200 || late.rows != 200 || late.messages != early.messages {
		t.Errorf("100 ends write %d and %d rows and send %d and %d messages", early.rows, late.rows, early.messages, late.messages)
	}
	if late.rowBytes > early.rowBytes*101/100 || late.messageBytes > early.messageBytes*101/100 {
		t.Errorf("the rows grow: %+v, later %+v", early, late)
	}
	if late.alloc > early.alloc*3/2 {
		t.Errorf("100 ends allocate %d bytes early and %d late", early.alloc, late.alloc)
	}
	if per := late.alloc / 100; per > 100_000 {
		t.Errorf("an end allocates %d bytes; the whole list has 350 kB", per)
	}
	if n := f.s.rendered.parsed; n != 1 {
		t.Errorf("the step was rendered %d times after it began, want once", n)
	}
	endChildren(f, 70)
	if f.s.End != events.StatusCompleted {
		t.Errorf("the flow is %s", f.s.Status())
	}
}
