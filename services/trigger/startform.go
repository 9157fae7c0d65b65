package trigger

import (
	"context"
	"errors"
	"fmt"
)

// StartTarget is what a start of that name would run now; a Refusal when there is
// nothing of that name.
func (s *Service) StartTarget(ctx context.Context, namespace, kind, name string) (Target, error) {
	target, err := defined(namespace, name, func() (Target, error) { return s.definitions.Target(ctx, namespace, kind, name) })
	if errors.Is(err, ErrNotFound) {
		return Target{}, Refuse(CodeUnknownTarget, "there is no %s %q in the namespace %s; apply it first", kind, name, namespace)
	}
	if err != nil {
		return Target{}, fmt.Errorf("resolve %s %s: %w", kind, name, err)
	}
	return target, nil
}
