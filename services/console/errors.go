package console

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrNotFound says that the namespace has no such thing. Something of
	// another namespace is not found either.
	ErrNotFound = errors.New("not found")
	// ErrKeyReused says that an Idempotency-Key came again with another command.
	ErrKeyReused = errors.New("idempotency key used for another command")
	// ErrEnded says that the run has ended and takes no command.
	ErrEnded = errors.New("run has ended")
	// ErrNameTaken says that a token and a person would have one name.
	ErrNameTaken = errors.New("the name is a token's or a person's already")
)

// MissingError lists what a set of definitions names and neither holds nor
// finds in the catalog.
type MissingError struct{ Missing []Need }

func (e *MissingError) Error() string {
	parts := make([]string, 0, len(e.Missing))
	for _, n := range e.Missing {
		parts = append(parts, fmt.Sprintf("%s %s", n.Kind, n.Name))
	}
	return "not defined: " + strings.Join(parts, ", ")
}
