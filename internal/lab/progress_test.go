package lab

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestProgress(t *testing.T) {
	t.Parallel()
	var plain, tty bytes.Buffer
	for out, isTTY := range map[*bytes.Buffer]bool{&plain: false, &tty: true} {
		p := NewProgress(out, isTTY)
		p.Set("%d done", 1)
		p.Set("%d done", 2)
		p.Say("an event")
		p.End()
	}
	if got := plain.String(); strings.Contains(got, "\r") || !strings.Contains(got, "1 done\n") || strings.Contains(got, "2 done") || !strings.Contains(got, "an event\n") {
		t.Errorf("without a terminal: %q, want lines, and the status once in 5 s", got)
	}
	if got := tty.String(); !strings.Contains(got, "\r") || !strings.Contains(got, "2 done") || strings.Count(got, "\n") != 1 {
		t.Errorf("on a terminal: %q, want one line rewritten and one that stays", got)
	}
	p := NewProgress(&tty, true)
	p.began = time.Now().Add(-time.Hour)
	p.Set("%s", strings.Repeat("x", 200))
	if n := len(p.line()); n > 78 {
		t.Errorf("the status line has %d characters", n)
	}
}
