package approvals

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// Form is what a person fills in who says yes to r; nil for nothing.
func (r Request) Form() []events.FormField {
	if r.Kind != events.ApprovalAction {
		return nil
	}
	return r.Rule.FormOf()
}

// unfilled says what a yes leaves out that had to be filled in; empty for nothing.
// With other arguments than were asked about, what fills them in has been judged.
func unfilled(r Request, a Attempt) string {
	if a.Decision != events.Approve || len(r.Form()) == 0 {
		return ""
	}
	args := r.Args
	if a.Edit != nil {
		args = a.Edit.Args
	}
	if name := r.Rule.FormMissing(args); name != "" {
		return fmt.Sprintf("%s must be filled in: send it with your yes, in fields", name)
	}
	return ""
}

// fill puts the fields that an attempt brings into the arguments that it is about.
// Whoever fills in the form that was shown need not confirm the whole a second time:
// what was shown is confirmed by its digest, and the rest is the person's own.
func (s *Service) fill(ctx context.Context, a *Attempt) (shown bool, err error) {
	if a.Fields == nil {
		return false, nil
	}
	r, err := s.reader.Get(ctx, a.Namespace, a.ID)
	if err != nil {
		return false, err
	}
	shown = a.Args == nil && a.Digest != "" && a.Digest == r.Digest
	a.Args, err = r.filled(a.Args, a.Fields)
	return shown, err
}

// filled is args, or those that were asked about, with fields. ErrInvalid.
func (r Request) filled(args, fields json.RawMessage) (json.RawMessage, error) {
	if args == nil {
		args = r.Args
	}
	out, err := spec.FillIn(args, fields, r.Form())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return out, nil
}

// PreviewFilled is Preview of args, or of those that were asked about, with fields.
func (s *Service) PreviewFilled(ctx context.Context, namespace string, id events.ApprovalID, args, fields json.RawMessage) (Request, Preview, error) {
	if fields != nil {
		r, err := s.reader.Get(ctx, namespace, id)
		if err != nil {
			return Request{}, Preview{}, err
		}
		if args, err = r.filled(args, fields); err != nil {
			return r, Preview{}, err
		}
	}
	return s.Preview(ctx, namespace, id, args)
}
