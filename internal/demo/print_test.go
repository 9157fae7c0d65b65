package demo

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
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
