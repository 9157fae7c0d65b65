package approvals

import (
	"cmp"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// States of a notice.
const (
	NoticeDue       = "due"       // waits for its next attempt
	NoticeSending   = "sending"   // an attempt is under way, or its process was lost
	NoticeDelivered = "delivered" // the other side took it
	NoticeFailed    = "failed"    // it was refused for good, or its time is over
	NoticeGone      = "gone"      // its request ended before anybody was told
	NoticeUnknown   = "unknown"   // an attempt may have reached people, and a repeat could not be told from it
)

// Notice is one message to people and what became of it.
type Notice struct {
	events.Notice
	State       string
	Attempts    int
	CreatedAt   time.Time
	NextAt      time.Time // of the next attempt; zero when there is none
	DeliveredAt time.Time
	Problem     string // of the last attempt
	// Lost says that the attempt before this one was never reported.
	Lost bool
	// Person is to whom alone it goes; empty: to the channel.
	Person  string
	Receipt string // what the channel needs to change the message later
	Updates int    // attempts to do so
}

// Message is what a channel shows, without the channel's own marks. Its texts are
// from outside and hostile; they hold no control characters but line ends in
// values.
type Message struct {
	ID    string // the same in every attempt
	Type  string // what a program reads: "holdfast.notice"
	Title string // one line
	Facts []Shown
	Hint  string // what to do next, one line
	At    time.Time
	Data  any // what a program reads
	// Of a request that waits:
	Ask  *Asked // nil: it is not decided in the channel
	To   string // address of the one person; empty: the channel
	Link string // where that person sees and decides it; empty for none
}

// Shown is one named value.
type Shown struct{ Name, Value string }

// Bounds of what is shown, in characters.
const (
	maxTitle = 140
	maxShown = 1500
)

// Tell is how a notice is told. It is pure.
func Tell(n events.Notice) Message {
	m := Message{ID: string(n.NoticeID), Type: "holdfast.notice", At: n.At, Data: n}
	who := strings.TrimSpace(n.Kind + " " + n.Name)
	who = strings.ToUpper(who[:min(1, len(who))]) + who[min(1, len(who)):]
	switch n.Reason {
	case events.NoticeCompleted:
		m.Title = who + " has completed a run"
	case events.NoticeFailed:
		m.Title = who + ": a run failed"
	case events.NoticeExpired:
		m.Title = who + ": the time of a run was over"
	case events.NoticeNeedsAttention:
		m.Title, m.Hint = who+": a run needs attention", "look, mend the cause, then: holdfast runs resume "+string(n.RunID)
	case events.NoticeApprovalExpired:
		m.Title = who + ": nobody answered in time"
		if n.Tool != "" {
			m.Title += " about " + n.Tool
		}
	case events.NoticeApproval:
		m.Title = strings.TrimSpace(n.Name + " asks people about " + n.Tool)
	case events.NoticeDigest:
		tellDigest(&m, n.Waiting)
	case events.NoticeBudget:
		m.Title = budgetTitle(who, n.Alert)
	default: // of a newer release
		m.Title = who + ": " + n.Reason
	}
	if m.Hint == "" && n.RunID != "" {
		m.Hint = "holdfast runs get " + string(n.RunID)
	}
	add := func(name, value string) {
		if value != "" {
			m.Facts = append(m.Facts, Shown{name, clean(value, maxShown, true)})
		}
	}
	if n.Error != nil {
		add("error", n.Error.Code+": "+n.Error.Message)
	}
	if a := n.Alert; a != nil {
		add("used", amount(a.Unit, a.Used)+" of "+amount(a.Unit, a.Limit))
		if a.RunID == "" {
			add("window", a.Window)
		}
	}
	add("run", string(n.RunID))
	add("approval", string(n.ApprovalID))
	add("namespace", n.Namespace)
	add("at", n.At.UTC().Format("2006-01-02 15:04:05 UTC"))
	m.Title = clean(m.Title, maxTitle, false)
	return m
}

func budgetTitle(who string, a *events.BudgetAlert) string {
	if a == nil {
		return who + ": a budget"
	}
	if a.RunID != "" {
		own, ok := strings.CutPrefix(a.Pool, "run:")
		if !ok {
			own = a.Unit
		}
		return fmt.Sprintf("%s: %d %% of a run's %s are used", cmp.Or(who, "A run"), a.Percent, own)
	}
	return fmt.Sprintf("Budget %s: %d %% are used", a.Pool, a.Percent)
}

func amount(unit string, n int64) string {
	if unit == "micro_usd" {
		return "$" + spec.MicroUSD(n).String()
	}
	return fmt.Sprintf("%d %s", n, unit)
}

// clean makes text from outside fit to show: at most limit characters, no control
// characters and nothing that turns the direction of writing; lines keeps line
// ends.
func clean(s string, limit int, lines bool) string {
	var b strings.Builder
	n := 0
	for _, r := range s {
		switch {
		case r == '\n' && lines:
		case unicode.IsControl(r), r == '\u2028', r == '\u2029':
			r = ' '
		case unicode.Is(unicode.Cf, r) && r != '\u200d': // U+200D joins emoji
			continue
		}
		if n++; n > limit {
			return b.String() + "…"
		}
		b.WriteRune(r)
	}
	return b.String()
}
