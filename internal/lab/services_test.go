package lab

import (
	"slices"
	"strings"
	"testing"
)

func TestServices_Lay(t *testing.T) {
	t.Parallel()
	replicas := map[string]int{"runner": 2, "tools": 2}
	s, err := NewServices(ServicesConfig{Binary: "holdfast", Database: "postgres://db", Dir: t.TempDir(), Env: []string{"MORE=1"}, Replicas: replicas})
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	seen := map[string]string{}
	for _, p := range s.Programs {
		count[p.Role]++
		for i, arg := range p.Args {
			if addr := p.Args[min(i+1, len(p.Args)-1)]; arg == "--listen" || arg == "--health-listen" || arg == "--nats-listen" {
				if other, twice := seen[addr]; twice {
					t.Errorf("%s and %s share %s", other, p.Name, addr)
				}
				seen[addr] = p.Name
			}
		}
		for _, want := range []string{"HOLDFAST_DATABASE_URL=postgres://db", "HOLDFAST_NATS_URL=nats://" + s.NATS, "MORE=1"} {
			if !slices.Contains(p.Env, want) {
				t.Errorf("%s lacks %s", p.Name, want)
			}
		}
		if !strings.HasPrefix(p.Ready, "http://127.0.0.1:") {
			t.Errorf("%s: ready at %q", p.Name, p.Ready)
		}
	}
	for _, role := range Roles {
		if want := max(replicas[role], 1); count[role] != want {
			t.Errorf("%d processes of %s, want %d", count[role], role, want)
		}
	}
	if seen[strings.TrimPrefix(s.Edge, "http://")] != "edge" {
		t.Errorf("the edge's address is %q", s.Edge)
	}
	s.Change("trigger", func(p *Program) { p.Failpoint = "trigger.committed=kill" })
	for _, p := range s.Programs {
		if (p.Failpoint != "") != (p.Name == "trigger") {
			t.Errorf("%s has the failpoint %q", p.Name, p.Failpoint)
		}
	}
}
