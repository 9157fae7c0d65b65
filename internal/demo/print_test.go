package demo

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestReport_Text(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := judge(goodNight()).write(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"resumption success", "6 of 6", "duplicate-action rate", "0 of 29", "run completion rate", "32 of 32", "p50 2.00 s, p99 2.00 s", "n 6",
		"arrivals 30", "duplicates 0", "in doubt 1", "resolved by a person 1", "runner-1", "first seq after resume 5",
		"3 answers + 1 in flight", "12 reached the web", "2 answered with the budget", "alerts 1", "posted 58 times", "checks hold",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, b.String())
		}
	}
}

func TestReport_FailureSaysExpectedAndSeen(t *testing.T) {
	t.Parallel()
	f := goodNight()
	f.ManyPages.Fetched = 13
	r := judge(f)
	r.Logs = "/tmp/logs"
	var b bytes.Buffer
	if err := r.write(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"FAILED  shop 23: fetches that reached the web", "expected 12", "seen     13", "/tmp/logs", "--seed 1"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, b.String())
		}
	}
}

func TestReport_JSON(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := judge(goodNight()).writeJSON(&b); err != nil {
		t.Fatal(err)
	}
	var got struct {
		OK       bool
		Measures []struct{ N int }
		Effects  struct{ Duplicates *int }
		Checks   []struct{ OK bool }
	}
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if !got.OK || len(got.Measures) != 4 || got.Effects.Duplicates == nil || len(got.Checks) < 40 {
		t.Errorf("%+v", got)
	}
}

func TestProgress(t *testing.T) {
	t.Parallel()
	var plain, tty bytes.Buffer
	for out, isTTY := range map[*bytes.Buffer]bool{&plain: false, &tty: true} {
		p := newProgress(out, isTTY)
		p.set("%d done", 1)
		p.set("%d done", 2)
		p.say("an event")
		p.end()
	}
	if got := plain.String(); strings.Contains(got, "\r") || !strings.Contains(got, "1 done\n") || strings.Contains(got, "2 done") || !strings.Contains(got, "an event\n") {
		t.Errorf("without a terminal: %q, want lines, and the status once in 5 s", got)
	}
	if got := tty.String(); !strings.Contains(got, "\r") || !strings.Contains(got, "2 done") || strings.Count(got, "\n") != 1 {
		t.Errorf("on a terminal: %q, want one line rewritten and one that stays", got)
	}
	p := newProgress(&tty, true)
	p.began = time.Now().Add(-time.Hour)
	p.set("%s", strings.Repeat("x", 200))
	if n := len(p.line()); n > 78 {
		t.Errorf("the status line has %d characters", n)
	}
}
