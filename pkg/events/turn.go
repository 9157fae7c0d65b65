package events

import "time"

// TurnAwaited is a model call that begins no sooner than the limits of its model
// allow. The timer row ends the wait.
type TurnAwaited struct {
	Model string    `json:"model"` // name of the Model
	Until time.Time `json:"until"` // the turn that is booked for the run
	// Wake is when the run asks for its turn, a little sooner.
	Wake   time.Time `json:"wake"`
	Worker string    `json:"worker"`
	Epoch  int64     `json:"epoch"`
}
