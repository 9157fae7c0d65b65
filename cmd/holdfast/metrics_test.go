package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/internal/egress"
	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/services/approvals"
	"github.com/holdfast-run/holdfast/services/console"
	"github.com/holdfast-run/holdfast/services/runner"
	"github.com/holdfast-run/holdfast/services/tools"
	"github.com/holdfast-run/holdfast/services/trigger"
)

// TestMetricsDoc holds docs/metrics.md to the instruments that the services make.
func TestMetricsDoc(t *testing.T) {
	t.Parallel()
	tel := telemetry.Discard()
	if _, err := trigger.NewMetrics(tel); err != nil {
		t.Fatal(err)
	}
	if _, err := runner.NewMetrics(tel); err != nil {
		t.Fatal(err)
	}
	if _, err := tools.NewMetrics(tel); err != nil {
		t.Fatal(err)
	}
	if _, err := approvals.NewMetrics(tel); err != nil {
		t.Fatal(err)
	}
	if _, err := console.NewMetrics(tel); err != nil {
		t.Fatal(err)
	}
	if _, err := egress.NewMetrics(tel); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString(`# Metrics

<!-- Generated from the instruments by "go generate ./cmd/holdfast". Do not edit. -->

Every process serves ` + "`/metrics`" + ` on its health port in Prometheus' text form: those of its services below, the duration of requests at its
doors by route (` + "`http_server_request_duration_seconds`" + `; streams are not in it), and those of Go and of the process. A gauge of the whole database
is the same in every replica: take the maximum, not the sum.

A label takes the values that are listed here and ` + "`other`" + `, so the number of series does not grow with runs, definitions or what strangers send.
Names of webhooks and schedules, ids of runs and texts of errors are in the delivery log, in a schedule's history, in logs and in traces.

| metric | kind | what |
|---|---|---|
`)
	list := tel.Described()
	for _, i := range list {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", i.Name, i.Kind, i.Help)
	}
	b.WriteString("\n## Labels\n\n| metric | label | values |\n|---|---|---|\n")
	for _, i := range list {
		for _, l := range i.Labels {
			fmt.Fprintf(&b, "| `%s` | `%s` | `%s` |\n", i.Name, l.Key, strings.Join(l.Values, "` `"))
		}
	}
	b.WriteString(`
## What to be told of

| when | expression |
|---|---|
| a schedule skips because its run does not end, or waits for a person | ` + "`increase(holdfast_trigger_fires_total{outcome=\"skipped\",reason=~\"overlap\\|buffer_full\"}[1h]) > 0`" + ` |
| fires were missed | ` + "`increase(holdfast_trigger_fires_total{outcome=\"skipped\",reason=\"missed\"}[1h]) > 0`" + ` |
| a schedule starts nothing | ` + "`increase(holdfast_trigger_fires_total{outcome=\"rejected\"}[1h]) > 0`" + ` |
| starts wait for a runner or for NATS | ` + "`max(holdfast_trigger_backlog_age_seconds) > 60`" + ` |
| runs wait for a runner to make their model call | ` + "`max(holdfast_runner_unasked_age_seconds) > 60`" + ` |
| a running run stands still | ` + "`max(holdfast_runner_stalled_seconds) > 1800`" + ` |
| runs wait for a person because of a fault | ` + "`increase(holdfast_runner_parked_total[1h]) > 0`" + ` |
| workers die or lose their database | ` + "`increase(holdfast_runner_takeovers_total[10m]) > 0`" + ` |
| writes may have happened and nobody knows | ` + "`sum by (policy) (increase(holdfast_tools_doubts_total[1h])) > 0`" + ` |
| people are waited for | ` + "`max(holdfast_approvals_waiting_age_seconds) > 86400`" + ` |
| people are not told | ` + "`increase(holdfast_approvals_notices_total{state=~\"failed\\|unknown\"}[1h]) > 0`" + ` |
| a host that tools or models need is failing | ` + "`max(holdfast_egress_circuits_open) > 0`" + ` |
| senders are refused | ` + "`sum by (provider, reason) (rate(holdfast_trigger_requests_total{outcome=\"rejected\",provider!=\"unknown\"}[5m])) > 0`" + ` |
`)
	const path = "../../docs/metrics.md"
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b.String(), string(have)); diff != "" {
		t.Errorf("docs/metrics.md is stale; run \"go generate ./cmd/holdfast\" (-want +have):\n%s", diff)
	}
}
