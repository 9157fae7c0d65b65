package main

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/spec"
)

func TestHostLimits(t *testing.T) {
	t.Parallel()
	s := ServiceSettings{ToolsHostRate: []string{"API.example.com.=10/s", "b=5/m"}, ToolsHostConcurrency: []string{"api.example.com=4"}}
	got, err := s.hostLimits()
	if err != nil || got["api.example.com"] != (spec.Limits{Rate: spec.Rate{N: 10, Per: time.Second}, Concurrency: 4}) || len(got) != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	bad := ServiceSettings{ToolsHostRate: []string{"api.example.com", "a:443=1/s", "c=10"}, ToolsHostConcurrency: []string{"d=0"}}
	_, err = bad.hostLimits()
	for _, want := range []string{`"api.example.com"`, `"a:443=1/s"`, "host c", "host d"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not name %s", err, want)
		}
	}
}
