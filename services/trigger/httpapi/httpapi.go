package httpapi

import (
	"context"
	"fmt"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/trigger"
)

const (
	headerReplayed = "Idempotency-Replayed"
	headerDelivery = "Holdfast-Delivery" // id of a request's entry in the delivery log
)

type api struct {
	svc  *trigger.Service
	door *door.Door
	now  clock
}

// Register hangs the service's routes into d.
func Register(d *door.Door, svc *trigger.Service) { register(d, svc, svc.Now) }

func register(d *door.Door, svc *trigger.Service, now clock) {
	a := &api{svc: svc, door: d, now: now}
	a.registerHooks(d)
	a.registerStarts(d)
	a.registerStartPages(d)
	a.registerTriggerPages(d)
	a.registerSchedules(d)
	a.registerDeliveries(d)
	a.registerTests(d)
	a.registerSignals(d)
}

var article = map[string]string{events.KindAgent: "an agent", events.KindFlow: "a flow"}

type startOutput struct {
	Location string `header:"Location"`
	Replayed string `header:"Idempotency-Replayed"`
	Body     started
}

func startAnswer(a trigger.Accepted) *startOutput {
	out := &startOutput{Body: startedBody(a)}
	out.Location = out.Body.StatusURL
	if a.Repeat {
		out.Replayed = "true"
	}
	return out
}

func principal(ctx context.Context) (authn.Principal, error) {
	p, ok := authn.FromContext(ctx)
	if !ok {
		return authn.Principal{}, fmt.Errorf("request without a principal behind a door that needs one")
	}
	return p, nil
}
