package approvals

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Vote is one person's yes to a request that wants more than one.
type Vote struct {
	By     string        `json:"by"`
	Door   string        `json:"door"`
	Digest events.Digest `json:"digest"` // what the person saw
	At     time.Time     `json:"at"`
}

// Quorum is how many people must say yes to r.
func (r Request) Quorum() int {
	if r.Kind != events.ApprovalAction || r.Rule == nil || r.Rule.Quorum < 2 {
		return 1
	}
	return int(r.Rule.Quorum)
}

// WithVote is r's votes with that of a, which takes the place of an earlier one of the
// same person.
func (r Request) WithVote(a Attempt, now time.Time) []Vote {
	var out []Vote
	for _, v := range r.Votes {
		if v.By != a.By {
			out = append(out, v)
		}
	}
	return append(out, Vote{By: a.By, Door: a.Door, Digest: a.bound(r), At: now})
}

// bound is the digest that a yes of a to r stands for.
func (a Attempt) bound(r Request) events.Digest {
	if a.Edit != nil {
		return a.Edit.Digest
	}
	return r.Digest
}

// count says what a yes that may be given comes to: only votes for the same digest
// count, and each person once.
func (r Request) count(a Attempt) Outcome {
	digest, others := a.bound(r), 0
	for _, v := range r.Votes {
		switch {
		case v.Digest != digest:
		case v.By == a.By:
			return Repeated
		default:
			others++
		}
	}
	if others+1 < r.Quorum() {
		return Counted
	}
	return Decided
}

// VotesText says how far r is, like "1 of 2: ann"; empty when one decides. Votes for
// other arguments are named apart: they do not count together.
func VotesText(r Request) string {
	if r.Quorum() < 2 {
		return ""
	}
	var digests []events.Digest
	who := map[events.Digest][]string{}
	for _, v := range r.Votes {
		if who[v.Digest] == nil {
			digests = append(digests, v.Digest)
		}
		who[v.Digest] = append(who[v.Digest], v.By)
	}
	if len(digests) == 0 {
		return fmt.Sprintf("0 of %d", r.Quorum())
	}
	var said []string
	for _, d := range digests {
		one := fmt.Sprintf("%d of %d: %s", len(who[d]), r.Quorum(), strings.Join(who[d], ", "))
		if d != r.Digest {
			one += " (with other arguments)"
		}
		said = append(said, one)
	}
	return strings.Join(said, "; ")
}
