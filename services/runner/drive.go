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
	DriveAsk            // a fresh step is to bring the call to somebody
	DriveClaim          // nobody has the call, and this is the step for it: take it
	DriveTakeOver       // take it from its owner if that is dead
)

// DecideDrive says what a message with the given cause has to do about the model
// call of a run. It is pure. step says that the message is a step, working that
// this very process makes the call that the claim is for.
//
// A call is begun only under a message that is surely still there, because what its
// worker commits is sent again by that message alone, should the worker die. The
// claim's own message is, and so is a step for this very row and epoch: nobody has
// worked with it. Any other may be one with which a process woke, or which was
// handed out twice, and which another acknowledged long ago.
func DecideDrive(s *State, c Claim, cause string, step, working bool) Drive {
	mine, fresh := c.Held() && c.Cause == cause, cause == stepID(s.RunID, s.Seq, c.Epoch)
	switch owes := s.OwesModelCall(); {
	case !owes && mine && !working:
		return DriveDrop // paused or ended while a worker was at it
	case !owes:
		return DriveRest
	case !c.Held() && fresh:
		return DriveClaim
	case !c.Held():
		return DriveAsk
	case working:
		return DriveRest
	case mine || fresh:
		return DriveTakeOver
	case step:
		return DriveAsk
	}
	return DriveRest // the message that the claim belongs to is still there
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
