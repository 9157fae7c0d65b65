package main

import (
	"context"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-run/holdfast/internal/bus"
	"github.com/holdfast-run/holdfast/internal/catalog"
	"github.com/holdfast-run/holdfast/internal/lifecycle"
	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/approvals"
	"github.com/holdfast-run/holdfast/services/approvals/httpapi"
	"github.com/holdfast-run/holdfast/services/approvals/notify"
	"github.com/holdfast-run/holdfast/services/approvals/postgres"
)

// approvalWorkers is how many questions are stored at once.
const approvalWorkers = 16

func (p *process) addApprovals() {
	var (
		pool     *pgxpool.Pool
		announce *postgres.Announcer
		svc      *approvals.Service
		notifier *approvals.Notifier
		channels notify.Config
		metrics  *approvals.Metrics
	)
	p.pool("approvals", &pool)
	p.part("approvals-relay", func(context.Context) (lifecycle.Service, error) {
		announce = postgres.New(pool).NewAnnouncer(p.bus.Publish)
		return runs("approvals-relay", announce.Run, p.forget(pool, "approvals")), nil
	})
	p.part("approvals-notices", func(context.Context) (lifecycle.Service, error) {
		out, err := p.egress()
		if err != nil {
			return nil, err
		}
		if metrics, err = approvals.NewMetrics(p.telemetry); err != nil {
			return nil, err
		}
		channels = notify.Config{Egress: out, LookupEnv: os.LookupEnv, ReadFile: os.ReadFile}
		notifier = approvals.NewNotifier(approvals.NotifierDeps{
			Links: postgres.New(pool), Requests: postgres.New(pool), PublicURL: p.publicURL(p.services.ApprovalsPublicURL),
			Notices: postgres.New(pool),
			Digests: postgres.New(pool), DigestChannels: channelDefinitions{catalog.New(pool)}.digests,
			Channels:   notify.All(channels),
			Definition: channelDefinitions{catalog.New(pool)}.channel,
			Log:        p.log.With(telemetry.KeyService, "approvals"),
			Metrics:    metrics,
		})
		return runs("approvals-notices", notifier.Run), nil
	})
	p.part("approvals", func(context.Context) (lifecycle.Service, error) {
		store := postgres.New(pool)
		svc = approvals.New(approvals.Config{ProposeAfter: p.services.ApprovalsProposeAfter}, approvals.Deps{
			Inbox: store, Decider: store, Reader: store, Groups: store, Audit: store, Grants: store, Announce: announce, Notifier: notifier, Resends: store,
			PublicURL: p.publicURL(p.services.ApprovalsPublicURL),
			Links:     store, Channels: approvals.Channels{Definition: channelDefinitions{catalog.New(pool)}.channel, Clicks: notify.NewSlack(channels)},
			Tools: channelDefinitions{catalog.New(pool)}.tool,
			Log:   p.log.With(telemetry.KeyService, "approvals"), Metrics: metrics,
		})
		httpapi.Register(p.door("approvals", pool), svc)
		return svc, nil
	})
	p.part("approvals-inbox", func(ctx context.Context) (lifecycle.Service, error) {
		consumer, err := p.bus.Consume(ctx, bus.Consumption{
			Stream: events.StreamApprovals, Durable: events.ConsumerApprovals, Workers: approvalWorkers,
			Handle: svc.Handle, Reject: svc.Reject,
		})
		if err != nil {
			return nil, err
		}
		return lifecycle.Funcs{ServiceName: "approvals-inbox", OnStop: consumer.Stop}, nil
	})
}
