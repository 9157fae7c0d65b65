package main

import (
	"github.com/holdfast-run/holdfast/internal/egress"
)

// egress is what every service of this process sends requests with, so that they
// share what is known about hosts.
func (p *process) egress() (*egress.Client, error) {
	if p.outgoing != nil {
		return p.outgoing, nil
	}
	c, err := p.services.egress()
	if err != nil {
		return nil, err
	}
	if c.Metrics, err = egress.NewMetrics(p.telemetry); err != nil {
		return nil, err
	}
	c.Breaker = egress.NewBreaker(egress.BreakerConfig{
		Failures: p.services.EgressBreakerFailures, Open: p.services.EgressBreakerOpen, Log: p.log, Metrics: c.Metrics,
	})
	p.outgoing = egress.New(c)
	return p.outgoing, nil
}
