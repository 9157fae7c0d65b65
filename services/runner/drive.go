package runner

import "github.com/holdfast-run/holdfast/pkg/events"

// Drive is what a message that adds nothing to a run has to do about its model
// call.
type Drive int

// What may have to be done. The zero value is nothing: no call is owed, or
// somebody else is at it.
const (
	DriveRest     Drive = iota
	DriveDrop           // nobody is owed what the claim was for: it goes if its owner is dead
	DriveAsk            // nobody has the call: a step is to bring it to somebody
	DriveClaim          // nobody has the call, and this is the step: take it
	DriveTakeOver       // take it from its owner if that is dead
)

// DecideDrive says what a message with the given cause has to do about the model
// call of a run. It is pure. step says that the message is a step, working that
// this very process makes the call that the claim is for.
func DecideDrive(s *State, c Claim, cause string, step, working bool) Drive {
	mine := c.Held() && c.Cause == cause
	switch owes := s.OwesModelCall(); {
	case !owes && mine && !working:
		return DriveDrop // paused or ended while a worker was at it
	case !owes:
		return DriveRest
	case !c.Held() && step:
		return DriveClaim
	case !c.Held():
		// Who slept with the message may wake when another has long acknowledged it.
		// What it commits then nobody sends again, should it die; a step is a message
		// that stays until then.
		return DriveAsk
	case working:
		return DriveRest
	case !mine && !step:
		return DriveRest // the message that the claim belongs to is still there
	}
	return DriveTakeOver
}

// OwesStep reports whether a commit leaves a model call that only a step brings to
// somebody. before is the claim that the commit found.
func OwesStep(c Commit, before Claim) bool {
	switch {
	case !c.After.OwesModelCall():
		return false
	case before.Held():
		return resumes(c.Facts) // the claim is from before the pause; its message may be gone
	}
	return c.Claim != ClaimTake
}

func resumes(facts []Fact) bool {
	for _, f := range facts {
		if f.Kind == events.FactResumed || f.Kind == events.FactBudgetRaised {
			return true
		}
	}
	return false
}
