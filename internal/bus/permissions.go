package bus

import (
	"slices"
	"strings"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Permissions are the subjects of one service, with NATS' wildcards.
type Permissions struct {
	Publish, Subscribe []string
}

// PermissionsOf are the least that a service needs with Config.Own: what it sends,
// the stream that it owns, the streams that it looks at, and its own inbox.
// A service that is not one of Services has none.
func PermissionsOf(service string) Permissions {
	var p Permissions
	run := func(what ...string) {
		for _, w := range what {
			p.Publish = append(p.Publish, "hf.run.*."+w)
		}
	}
	switch service {
	case "trigger":
		run(events.RunStart, events.RunCancel, events.RunSignal)
		p.follow()
	case "runner":
		run(events.RunStart, events.RunCancel, events.RunResume, events.RunRaiseBudget, events.RunChildCompleted, events.RunTimerFired)
		run(events.StepKinds()...)
		p.Publish = append(p.Publish, "hf.tool.*.*", "hf.toolctl.*", "hf.approval.*.*", "hf.event.*.*", "hf.live.*",
			"$JS.API.STREAM.PURGE."+events.StreamEvents,
			// How much waits, to tell a queue from a loss.
			"$JS.API.CONSUMER.INFO."+events.StreamTools+".*", "$JS.API.CONSUMER.INFO."+events.StreamApprovals+".*")
	case "tools":
		run(events.RunToolCompleted)
		// Calls that are tried and repeated, and services that are tools.
		p.Publish = append(p.Publish, "hf.tool.*.*", "hf.toolsvc.>", "$SRV.INFO")
	case "approvals":
		run(events.RunApprovalDecided)
	case "console":
		run(events.RunCancel, events.RunPause, events.RunResume, events.RunRaiseBudget, events.RunFork, events.RunMessage, events.RunMigrate, events.RunSignal)
		p.follow()
		p.Publish = append(p.Publish, "$JS.API.STREAM.INFO.*", "$JS.API.CONSUMER.INFO.*.*") // how much waits
	default:
		return p
	}
	for _, stream := range Owned(service) {
		p.Publish = append(p.Publish,
			"$JS.API.STREAM.CREATE."+stream, "$JS.API.STREAM.UPDATE."+stream, "$JS.API.STREAM.INFO."+stream)
		if stream == events.StreamEvents {
			continue // written only
		}
		p.Publish = append(p.Publish,
			"$JS.API.CONSUMER.CREATE."+stream+".>", "$JS.API.CONSUMER.INFO."+stream+".*", "$JS.API.CONSUMER.MSG.NEXT."+stream+".*", "$JS.ACK."+stream+".>")
	}
	p.Subscribe = append(p.Subscribe, Inbox(service)+".>")
	slices.Sort(p.Publish)
	p.Publish = slices.Compact(p.Publish)
	return p
}

// follow adds what following runs needs: EVENTS from any place, and what models write.
func (p *Permissions) follow() {
	for _, what := range []string{"STREAM.INFO.EVENTS", "CONSUMER.CREATE.EVENTS.>", "CONSUMER.INFO.EVENTS.*", "CONSUMER.DELETE.EVENTS.*", "CONSUMER.MSG.NEXT.EVENTS.*"} {
		p.Publish = append(p.Publish, "$JS.API."+what)
	}
	p.Subscribe = append(p.Subscribe, "hf.live.*")
}

// Services are those that have permissions.
func Services() []string { return []string{"trigger", "runner", "tools", "approvals", "console"} }

// Owned are the streams that are a service's own: its inbox, and EVENTS the
// runner's, which writes it.
func Owned(service string) []string {
	return map[string][]string{
		"trigger":   {events.StreamIn},
		"runner":    {events.StreamRuns, events.StreamEvents},
		"tools":     {events.StreamTools},
		"approvals": {events.StreamApprovals},
	}[service]
}

// Inbox is where answers to some services of one process arrive. Nobody else may
// listen there: pulled messages arrive in inboxes, too.
func Inbox(services ...string) string {
	if len(services) == 0 {
		return "_INBOX.holdfast"
	}
	return "_INBOX." + strings.Join(services, "-")
}
