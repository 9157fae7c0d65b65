package main

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestExpand(t *testing.T) {
	t.Parallel()
	cases := map[string]struct{ names, want []string }{
		"a service needs the bus":       {[]string{"runner"}, []string{"bus", "runner"}},
		"what two need starts once":     {[]string{"tools", "runner"}, []string{"bus", "tools", "runner"}},
		"a name given twice counts one": {[]string{"tools", "tools"}, []string{"bus", "tools"}},
		"dev brings servers first":      {[]string{"dev"}, []string{"pgdev", "natsdev", "migrate", "bus", "console", "trigger", "tools", "approvals", "runner", "dev"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := expand(tc.names...)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("order (-want +got):\n%s", diff)
			}
		})
	}
	if _, err := expand("runer"); err == nil {
		t.Error("an unknown target was taken")
	}
}

func TestTargets_AreWhole(t *testing.T) {
	t.Parallel()
	all, err := expand("dev")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range services {
		if !slices.Contains(all, s) {
			t.Errorf("dev does not run %s", s)
		}
		if ports[s] == 0 {
			t.Errorf("%s has no port of its own", s)
		}
	}
	for _, s := range doorServices {
		if !slices.Contains(services, s) {
			t.Errorf("%s has a door and is no service", s)
		}
	}
	for name, target := range targets {
		if target.build == nil {
			t.Errorf("%s builds nothing", name)
		}
	}
}
