package tools

import (
	"fmt"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Consequence is one thing that a verdict on a doubt brings about, in words.
type Consequence struct {
	RunID events.RunID // empty: for the key
	Run   string
	Text  string
}

// Follows says what a verdict on an effect in doubt brings about, for the key
// and for each run whose call shares it. It is pure and tells what settle,
// reopenCallsSQL and SettledMessages do.
func Follows(e Effect, verdict string, calls []Sharer, given bool, held *Stop) []Consequence {
	var out []Consequence
	say := func(c Sharer, text string) {
		out = append(out, Consequence{RunID: c.RunID, Run: c.RunName, Text: text})
	}
	opener := -1
	for i, c := range calls {
		if c.Opened && c.Waits() {
			opener = i
		}
	}
	switch verdict {
	case events.Happened:
		out = append(out, Consequence{Text: "The key is used up: whoever asks with it again is given this result, and nothing is sent."})
	case events.GiveUp:
		out = append(out, Consequence{Text: "The key stays closed: nothing is sent under it any more, and whoever asks with it is told that it may have happened."})
	case events.NotHappened:
		text := fmt.Sprintf("It is sent now, under the same key, as epoch %d.", e.Claim.Epoch+2)
		if opener < 0 {
			text = "Nothing is sent by itself. The key is free: the next who asks with it acts."
		} else if held != nil {
			text = "Nothing is sent yet: " + held.String() + ". When that is lifted it is sent, under the same key."
		}
		out = append(out, Consequence{Text: text})
		if opener >= 0 && calls[opener].YesID != "" {
			out = append(out, Consequence{Text: "The yes that it was sent with must still be valid. If its time is over, nothing is sent and the run reads that it expired."})
		}
	}
	for i, c := range calls {
		if !c.Waits() {
			continue
		}
		over := endedStatus(c.RunStatus)
		switch {
		case verdict == events.NotHappened && i == opener && over:
			say(c, "has ended ("+c.RunStatus+"), and its call is sent all the same; what comes of it is kept and changes nothing there.")
		case verdict == events.NotHappened && i == opener:
			say(c, "waits for that act and goes on with its outcome.")
		case verdict == events.NotHappened && opener < 0:
			say(c, "waits until somebody acts under the key.")
		case verdict == events.NotHappened:
			say(c, "wants the same and is answered with the outcome of that act.")
		case over:
			say(c, "has ended ("+c.RunStatus+"); the answer is kept and changes nothing there.")
		case verdict == events.Happened && given:
			say(c, "goes on as if the other side had answered with the result that you give.")
		case verdict == events.Happened:
			say(c, "goes on and reads that a person confirmed it, and that the result is not known.")
		default:
			say(c, "goes on and reads that it may have happened and that nobody knows.")
		}
	}
	return out
}

func endedStatus(status string) bool {
	switch status {
	case events.StatusCompleted, events.StatusFailed, events.StatusCancelled, events.StatusExpired:
		return true
	}
	return false
}
