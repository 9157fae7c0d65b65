package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/linetest"
	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// TestCaseC07_SilentLines drops, without a word, every line to NATS, to the model and
// to the shop at once: while a model answers, while the shop acts, while a person is
// asked, and those that lie idle in pools. No process is started again; what waits at a
// dead line gives up within the bound of its kind, and everything is done once.
func TestCaseC07_SilentLines(t *testing.T) {
	t.Parallel()
	d := deploy(t, fresh(t))
	toNATS := linetest.New(t, "tcp", strings.TrimPrefix(d.natsURL, "nats://"))
	toModel := linetest.New(t, "tcp", strings.TrimPrefix(d.out.modelURL, "http://"))
	toShop := linetest.New(t, "tcp", strings.TrimPrefix(d.out.shopURL, "http://"))
	d.plan("runner-1", "runner")
	over := []string{"runner-1", "trigger", "tools", "approvals", "console"}
	for _, name := range over {
		p := d.plans[name]
		p.env = append(slices.Clone(p.env), "HOLDFAST_NATS_URL=nats://"+toNATS.Addr)
		d.plans[name] = p
		if running := d.process(name); running != nil {
			running.term(t)
		}
	}
	d.start(over...)
	text := strings.NewReplacer("MODEL", "http://"+toModel.Addr, "SHOP", "http://"+toShop.Addr, "EDITION", "over lines",
		"timeout: 60s", "timeout: 3s", "effect: read", "effect: read\n  timeout: 2s", "effect: write", "effect: write\n  timeout: 2s").Replace(definitions)
	if _, err := d.admin.Apply(t.Context(), []client.Document{{File: "e2e.yaml", Text: text}}); err != nil {
		t.Fatal(err)
	}
	warm := job{Job: "warms-the-pools", Do: []string{"read", "pay"}}
	d.finished(t, d.startJob(t, warm), warm, 0)

	thinking, acting, asked := job{Job: "silent-while-it-thinks", Do: []string{"read", "pay"}}, job{Job: "silent-while-it-acts", Do: []string{"pay"}}, errand("silent-while-it-waits")
	h, act := d.out.hold(t, thinking.Job, 1), d.out.holdAct(t, acting.Job)
	thinks, acts, waits := d.startJob(t, thinking), d.startJob(t, acting), d.startJob(t, asked)
	h.wait(t)
	until(t, "the shop to be asked", func() bool { return len(d.out.of("pay", acting.Job)) == 1 })
	d.approval(t, waits, events.ApprovalAction)
	dropped := time.Now()
	for _, line := range []*linetest.Line{toNATS, toModel, toShop} {
		line.Forget()
	}
	h.release()
	act.release()
	next := job{Job: "after-the-silence", Do: []string{"read", "pay"}}
	later := d.startJob(t, next)
	d.finished(t, thinks, thinking, 1) // what was answered into the dead line is asked for again
	d.finished(t, acts, acting, 0)
	if all := d.out.of("pay", acting.Job); len(all) != 2 || all[0].key != all[1].key {
		t.Errorf("the shop was asked with %+v, want twice with one key", all)
	}
	if !d.sayYes(t, waits) {
		t.Error("the question is not open")
	}
	d.finished(t, waits, asked, 0)
	d.finished(t, later, next, 0)
	t.Logf("all had ended %s after the lines went silent", time.Since(dropped).Round(100*time.Millisecond))
	for _, name := range over {
		if p := d.process(name); !answers(t.Context(), "http://"+p.health+"/ready") {
			t.Errorf("%s is not ready", name)
		}
	}
}
