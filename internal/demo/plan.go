package demo

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Incidents that a seed puts in an order of its own.
const (
	incidentNATS      = "nats"
	incidentTools     = "tools"
	incidentApprovals = "approvals"
	incidentDeploy    = "deploy"
)

// plan is everything that a seed decides: who is hit, and when.
type plan struct {
	Seed uint64
	// TriggerPoint is the failpoint at which the trigger dies while it takes the
	// start; empty: it is killed TriggerDelay after its 202.
	TriggerPoint string
	TriggerDelay time.Duration
	// RunnerTurn is the request of child 17 during which its runner is killed: 0
	// is its first.
	RunnerTurn int
	// ToolsShop is the shop, one that does not honour the key, whose price was
	// just changed when the tools process that did it is killed.
	ToolsShop string
	// ReplayShop is one that honours the key; the same happens there.
	ReplayShop string
	// Order is the order of the incidents after the runner's death.
	Order []string
	// DeployRole is what gets SIGTERM, a new release.
	DeployRole string
	// NATSDown is how long NATS stays away.
	NATSDown time.Duration
	// ApprovalsAfter is how many decisions were posted when approvals is killed,
	// ApprovalsDelay how long after the last of them.
	ApprovalsAfter int
	ApprovalsDelay time.Duration
	// ApprovalsPoint is a failpoint at which it dies once more; empty for none.
	ApprovalsPoint string
}

// newPlan draws a plan. honours says which shops honour the key.
func newPlan(seed uint64, honours func(string) bool) plan {
	r := rand.New(rand.NewPCG(seed, 0x686f6c6466617374))
	ms := func(from, to int) time.Duration { return time.Duration(from+r.IntN(to-from+1)) * time.Millisecond }
	var honest, blind []string
	for n := 1; n <= shopCount; n++ {
		switch shop := shopName(n); {
		case shop == inFocus || shop == manyPagesShop:
			// They have a part of their own.
		case honours(shop):
			honest = append(honest, shop)
		case n <= 22: // begun by the time child 17 is over
			blind = append(blind, shop)
		}
	}
	p := plan{
		Seed:           seed,
		TriggerDelay:   ms(0, 25),
		RunnerTurn:     r.IntN(2),
		ToolsShop:      blind[r.IntN(len(blind))],
		ReplayShop:     honest[r.IntN(len(honest))],
		Order:          []string{incidentNATS, incidentTools, incidentApprovals, incidentDeploy},
		DeployRole:     []string{"runner", "tools", "trigger", "approvals", "console"}[r.IntN(5)],
		NATSDown:       ms(200, 900),
		ApprovalsAfter: 1 + r.IntN(3),
		ApprovalsDelay: ms(0, 8),
		TriggerPoint:   []string{"", "trigger.committed", "trigger.published"}[r.IntN(3)],
		ApprovalsPoint: []string{"", "approvals.committed"}[r.IntN(2)],
	}
	r.Shuffle(len(p.Order), func(i, j int) { p.Order[i], p.Order[j] = p.Order[j], p.Order[i] })
	return p
}

func (p plan) String() string {
	return fmt.Sprintf("child 17 in request %d, tools at %s and %s, deploy of %s, then %v", p.RunnerTurn+1, p.ToolsShop, p.ReplayShop, p.DeployRole, p.Order)
}
