package demo

import (
	"slices"
	"strings"
	"testing"
)

func TestServices_Lay(t *testing.T) {
	t.Parallel()
	s, err := newServices(Config{Binary: "holdfast"}, "postgres://db", t.TempDir(), &world{pricesURL: "http://prices", modelURL: "http://model"})
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	seen := map[string]string{}
	for _, sp := range s.specs {
		count[sp.Role]++
		for i, arg := range sp.Args {
			if addr := sp.Args[min(i+1, len(sp.Args)-1)]; arg == "--listen" || arg == "--health-listen" || arg == "--nats-listen" {
				if other, twice := seen[addr]; twice {
					t.Errorf("%s and %s share %s", other, sp.Name, addr)
				}
				seen[addr] = sp.Name
			}
		}
		for _, want := range []string{"HOLDFAST_DATABASE_URL=postgres://db", "ANTHROPIC_BASE_URL=http://model", "ANTHROPIC_API_KEY=scripted", "HOLDFAST_TOOL_PRICING_URL=http://prices"} {
			if !slices.Contains(sp.Env, want) {
				t.Errorf("%s lacks %s", sp.Name, want)
			}
		}
		if !strings.HasPrefix(sp.Ready, "http://127.0.0.1:") {
			t.Errorf("%s: ready at %q", sp.Name, sp.Ready)
		}
	}
	for _, role := range roles {
		if want := max(replicas[role], 1); count[role] != want {
			t.Errorf("%d processes of %s, want %d", count[role], role, want)
		}
	}
	if seen[strings.TrimPrefix(s.edge, "http://")] != "edge" {
		t.Errorf("the edge's address is %q", s.edge)
	}
	s.arm("trigger", "trigger.committed=kill")
	for _, sp := range s.specs {
		if (sp.Failpoint != "") != (sp.Name == "trigger") {
			t.Errorf("%s has the failpoint %q", sp.Name, sp.Failpoint)
		}
	}
}

// TestServices_RealModel: the real provider is reached at its own address.
func TestServices_RealModel(t *testing.T) {
	t.Parallel()
	s, err := newServices(Config{Binary: "holdfast", Model: "claude-x", APIKey: "sk-1"}, "postgres://db", t.TempDir(), &world{modelURL: "http://model"})
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range s.env {
		if strings.HasPrefix(kv, "ANTHROPIC_BASE_URL=") {
			t.Errorf("the real model is asked at %s", kv)
		}
	}
	if !slices.Contains(s.env, "ANTHROPIC_API_KEY=sk-1") {
		t.Error("the key of the real model is not passed on")
	}
}
