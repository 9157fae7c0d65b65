package approvals

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// ErrNoTool says that the definition of a request's tool cannot be used.
var ErrNoTool = errors.New("no such tool")

// Edit is what a person puts in the place of a request's arguments. The tool stays
// what it is: an edit cannot name one.
type Edit struct {
	Args   json.RawMessage // canonical
	Digest events.Digest   // what a yes to them is bound to
}

// Preview is what an edit would come to.
type Preview struct {
	Edit
	Text     string // what the tool's preview makes of them, fit to show; empty for none
	Changes  []events.Change
	Problems []spec.Violation // why the tool would not take it; with any there is no digest
}

// Bound is what the decision is bound to: the digest of what was asked, or of what
// a person made of it.
func (r Request) Bound() events.Digest {
	if r.Edit != nil {
		return r.Edit.Digest
	}
	return r.Digest
}

// Changes lists what a person changed; nil when nothing.
func (r Request) Changes() []events.Change {
	asked, err := events.Canonical(r.Args)
	if r.Edit == nil || err != nil {
		return nil
	}
	return events.Changes(asked, r.Edit.Args)
}

// Preview says what args in the place of a request's arguments would change, and
// the digest that confirms exactly that. It changes nothing. ErrInvalid when the
// request has no arguments that can be changed; ErrNotFound.
func (s *Service) Preview(ctx context.Context, namespace string, id events.ApprovalID, args json.RawMessage) (Request, Preview, error) {
	r, err := s.reader.Get(ctx, namespace, id)
	if err != nil {
		return Request{}, Preview{}, err
	}
	p, err := s.preview(ctx, r, args)
	return r, p, err
}

// Editable reports whether the arguments of r can be changed at all. When that cannot
// be known now it is false.
func (s *Service) Editable(ctx context.Context, r Request) bool {
	_, err := s.preview(ctx, r, r.Args)
	return err == nil
}

func (s *Service) preview(ctx context.Context, r Request, args json.RawMessage) (Preview, error) {
	if r.Kind != events.ApprovalAction || s.tools == nil {
		return Preview{}, fmt.Errorf("%w: only the arguments of an action can be changed", ErrInvalid)
	}
	tool, err := s.tools(ctx, r.Namespace, r.ToolDigest)
	if errors.Is(err, ErrNoTool) {
		return Preview{}, fmt.Errorf("%w: approval %s is not about the arguments of a tool, so nothing of it can be changed; approve or reject it as it is", ErrInvalid, r.ID)
	}
	if err != nil {
		return Preview{}, fmt.Errorf("tool of approval %s: %w", r.ID, err)
	}
	return editOf(r, tool, args)
}

// editOf is pure. The policy that the request was asked under stays: it is the
// one that makes its digest.
func editOf(r Request, tool *spec.Tool, args json.RawMessage) (p Preview, err error) {
	asked, err := events.Canonical(r.Args)
	if err != nil {
		return p, fmt.Errorf("%w: the arguments of approval %s cannot be read: %w", ErrInvalid, r.ID, err)
	}
	bind := func(args json.RawMessage, policy string) events.Digest {
		return events.BindDigest(r.Tool, r.ToolDigest, events.DigestOf(args), policy)
	}
	policy := tool.Approval.String()
	for _, other := range []string{events.RuleFork, r.Policy} {
		if bind(asked, policy) != r.Digest {
			policy = other
		}
	}
	if bind(asked, policy) != r.Digest {
		return p, fmt.Errorf("%w: approval %s was asked by another release, so nothing of it can be changed here; approve or reject it as it is", ErrInvalid, r.ID)
	}
	if len(args) > events.EditBytes {
		p.Problems = []spec.Violation{{Path: "$", Message: fmt.Sprintf("has %d bytes; at most %d are sent", len(args), events.EditBytes)}}
		return p, nil
	}
	if p.Args, err = events.Canonical(args); err != nil {
		p.Args, p.Problems = nil, []spec.Violation{{Path: "$", Message: err.Error()}}
		return p, nil
	}
	p.Changes = events.Changes(asked, p.Args)
	if p.Problems = tool.CheckArgs(p.Args); len(p.Problems) == 0 {
		p.Digest = bind(p.Args, policy)
		if text, err := tool.PreviewOf(p.Args); err == nil { // else there is none, as when it was asked
			p.Text = previewOf(text)
		}
	}
	return p, nil
}

// edit judges the arguments that an attempt brings. What the tool would not take is
// an unfit attempt; what changes nothing is no edit.
func (s *Service) edit(ctx context.Context, a *Attempt) error {
	shown, err := s.fill(ctx, a)
	if err != nil || a.Args == nil {
		return err
	}
	r, p, err := s.Preview(ctx, a.Namespace, a.ID, a.Args)
	switch {
	case err != nil:
		return err
	case len(p.Problems) > 0:
		a.Unfit = UnfitArgs(p.Problems)
	case len(p.Changes) == 0:
		a.Args = nil
	case a.Digest == "":
		return fmt.Errorf("%w: other arguments need the digest that confirms them; POST /v1/approvals/%s/edit shows what they change and says it", ErrInvalid, r.ID)
	default:
		if a.Edit = &p.Edit; shown {
			a.Digest = p.Digest
		}
	}
	return nil
}

// UnfitArgs says why a tool would not take arguments.
func UnfitArgs(bad []spec.Violation) string {
	var parts []string
	for _, v := range bad[:min(len(bad), 5)] {
		parts = append(parts, v.String())
	}
	return "the tool does not take these arguments: " + strings.Join(parts, "; ")
}

// sameEdit reports whether a yes is to what the stored one was to.
func sameEdit(r Request, a Attempt) bool {
	if r.Edit == nil || a.Edit == nil {
		return r.Edit == nil && a.Edit == nil && a.Unfit == ""
	}
	return r.Edit.Digest == a.Edit.Digest
}

// ChangesText lists changes as people read them.
func ChangesText(changes []events.Change) string {
	var lines []string
	for _, c := range changes {
		from, to := "nothing", "nothing"
		if c.From != nil {
			from = string(c.From)
		}
		if c.To != nil {
			to = string(c.To)
		}
		lines = append(lines, fmt.Sprintf("%s: %s → %s", c.Path, from, to))
	}
	return strings.Join(lines, "\n")
}
