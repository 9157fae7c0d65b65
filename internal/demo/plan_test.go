package demo

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPlan(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff(newPlan(7, honours), newPlan(7, honours)); diff != "" {
		t.Errorf("a seed has two plans (-one +other)\n%s", diff)
	}
	shops, roles, turns, orders := map[string]bool{}, map[string]bool{}, map[int]bool{}, map[string]bool{}
	for seed := range uint64(200) {
		p := newPlan(seed, honours)
		if honours(p.ToolsShop) || !honours(p.ReplayShop) {
			t.Errorf("seed %d: tools shop %s, replay shop %s", seed, p.ToolsShop, p.ReplayShop)
		}
		if p.ToolsShop == inFocus || p.ToolsShop == manyPagesShop || shopNumber(p.ToolsShop) == 0 {
			t.Errorf("seed %d: tools shop %s has a part of its own", seed, p.ToolsShop)
		}
		sorted := slices.Sorted(slices.Values(p.Order))
		if diff := cmp.Diff([]string{"approvals", "deploy", "nats", "tools"}, sorted); diff != "" {
			t.Errorf("seed %d: incidents (-want +got)\n%s", seed, diff)
		}
		if p.NATSDown <= 0 || p.NATSDown > time.Second || p.ApprovalsAfter < 1 {
			t.Errorf("seed %d: %+v", seed, p)
		}
		shops[p.ToolsShop], roles[p.DeployRole], turns[p.RunnerTurn], orders[p.String()] = true, true, true, true
	}
	if len(shops) < 3 || len(roles) != 5 || len(turns) != 2 || len(orders) < 20 {
		t.Errorf("200 seeds give %d shops, %d roles, %d turns, %d orders", len(shops), len(roles), len(turns), len(orders))
	}
}
