package tools

import (
	"errors"
	"fmt"

	"github.com/holdfast-run/holdfast/pkg/events"
)

var (
	// ErrNotFound says that the namespace has no such effect.
	ErrNotFound = errors.New("effect not found")
	// ErrNoDefinition says that no tool has the digest.
	ErrNoDefinition = errors.New("no such tool definition")
	// ErrInvalid says that a request makes no sense.
	ErrInvalid = errors.New("invalid")
	// ErrForgotten says that the bytes of an artifact went with their run.
	ErrForgotten = errors.New("its bytes were deleted with the run")
	// ErrRunDeleted says that the call's run was deleted: nobody waits for it.
	ErrRunDeleted = errors.New("the run was deleted")
	// ErrUnstorable says that a result cannot be kept in Postgres as it is.
	ErrUnstorable = errors.New("result cannot be stored")
)

// NotInDoubt says that an effect cannot be resolved because its outcome is not
// open: somebody did it before, or it is known.
type NotInDoubt struct {
	Effect Effect
	Shown  int64 // epoch of an earlier doubt that the verdict is about
}

func (e *NotInDoubt) Error() string {
	if e.Shown != 0 {
		return fmt.Sprintf("effect %s was in doubt in epoch %d when you looked; it was tried again since and is in doubt in epoch %d; look again", e.Effect.ID, e.Shown, e.Effect.Claim.Epoch)
	}
	if by := e.Effect.SettledBy; by != "" {
		return fmt.Sprintf("effect %s was resolved by %s; it is %s", e.Effect.ID, by, e.Effect.State)
	}
	return fmt.Sprintf("effect %s is %s; only an effect in doubt can be resolved", e.Effect.ID, e.Effect.State)
}

// Codes of problems that the model or an operator reads. They are stable.
const (
	CodeUnknownTool      = "unknown_tool"
	CodeInvalidKey       = "invalid_key"
	CodeNoKind           = "unsupported_tool"
	CodeMismatch         = "key_mismatch"
	CodeApprovalMissing  = "approval_missing"
	CodeApprovalMismatch = "approval_mismatch"
	CodeApprovalExpired  = "approval_expired"
	CodeRevoked          = "revoked"
	CodeUnknownOutcome   = "outcome_unknown"
	CodeUnavailable      = "unavailable"
	CodeWorkerLost       = "worker_lost"
	CodeNotHappened      = "not_happened"
	CodeUnstorable       = "result_not_stored"
	CodeExpiredKey       = "expired_key"
	CodeDamaged          = "damaged"
	CodeFenced           = "fenced"
	CodeOtherOutcome     = "other_outcome"
	CodeNotYours         = "not_a_program_effect"
	CodeNoCallback       = "no_callback"
	CodeNoPublicURL      = "no_public_url"
	CodeOutputInvalid    = "output_invalid"
)

func problem(code, format string, args ...any) *events.Problem {
	return &events.Problem{Code: code, Message: fmt.Sprintf(format, args...)}
}
