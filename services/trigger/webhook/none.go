package webhook

import "github.com/holdfast-run/holdfast/services/trigger"

// None checks nothing: whoever reaches the door may start runs. It is for
// networks where something else already decided who that is.
type None struct{}

var _ trigger.Provider = None{}

// Name implements trigger.Provider.
func (None) Name() string { return "none" }

// Verify implements trigger.Provider.
func (None) Verify(trigger.Request, trigger.Check) error { return nil }

// Event implements trigger.Provider.
func (None) Event(r trigger.Request, _ trigger.Check) (trigger.Event, error) {
	body, err := jsonBody(r)
	if err != nil {
		return trigger.Event{}, err
	}
	return trigger.Event{Body: body}, nil
}
