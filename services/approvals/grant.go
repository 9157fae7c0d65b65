package approvals

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// DoorGrant is the door of what a grant approved.
const DoorGrant = "grant"

// grantPrefix stands before a grant's id where a person's name would stand.
const grantPrefix = "grant:"

// Bounds of a grant.
const (
	MaxGrantUses = 100_000
	MaxGrantTime = 366 * 24 * time.Hour
)

// Grant is a bounded permission: what it allows is approved when it is asked.
type Grant struct {
	ID        string
	Namespace string
	Tool      string
	Agent     string // empty: any
	When      string // CEL over args; empty: any
	MaxUses   int64
	Used      int64
	AmountOf  string // a path like args.amount; empty: none
	MaxAmount string // decimal; what all uses together may come to
	Amount    string // what they have come to
	ExpiresAt time.Time
	Comment   string
	CreatedAt time.Time
	Maker     Maker
	RevokedAt time.Time
	RevokedBy string
}

// Maker is who made a grant, as they were then.
type Maker struct {
	Name   string
	Role   string
	Groups []string
}

// Grants keeps grants. Uses are counted by Inbox.Ask.
type Grants interface {
	MakeGrant(ctx context.Context, g Grant, lasts time.Duration) (Grant, error)
	Grant(ctx context.Context, namespace, id string) (Grant, error) // ErrNotFound
	// ListGrants returns grants, newest first; only those that still allow something
	// unless all.
	ListGrants(ctx context.Context, f GrantFilter) ([]Grant, error)
	// RevokeGrant ends a grant; again it changes nothing. ErrNotFound.
	RevokeGrant(ctx context.Context, namespace, id, by string) (Grant, error)
}

// GrantFilter narrows a list of grants.
type GrantFilter struct {
	Namespace string // required
	All       bool
	Limit     int
	Before    *GrantPosition
}

// GrantPosition is a place in a list of grants, newest first.
type GrantPosition struct {
	CreatedAt time.Time `json:"t"`
	ID        string    `json:"i"`
}

// decimal is an amount: nothing that a calculation could make larger than it looks.
var decimal = regexp.MustCompile(`^(0|[1-9][0-9]{0,17})(\.[0-9]{1,9})?$`)

// Check finds what is wrong with a grant that is to last so long. Every error is
// ErrInvalid.
func (g Grant) Check(lasts time.Duration) error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...))
	}
	for _, s := range []string{g.Tool, g.Agent, g.When, g.AmountOf, g.MaxAmount, g.Comment} {
		if !utf8.ValidString(s) || strings.ContainsRune(s, 0) || len(s) > 4000 {
			bad("a text is too long or not valid UTF-8")
			return errors.Join(errs...)
		}
	}
	if g.Tool == "" {
		bad("a grant names one tool")
	}
	if g.MaxUses < 1 || g.MaxUses > MaxGrantUses {
		bad("count is %d, want 1 to %d", g.MaxUses, MaxGrantUses)
	}
	if lasts < time.Minute || lasts > MaxGrantTime {
		bad("it would last %s, want 1m to %s", lasts, MaxGrantTime)
	}
	if g.When != "" {
		if _, err := spec.NewCondition(g.When, "args"); err != nil {
			bad("condition: %v", err)
		}
	}
	switch {
	case (g.AmountOf == "") != (g.MaxAmount == ""):
		bad("an amount is bounded with both amount_of, like args.amount, and max_amount")
	case g.AmountOf != "":
		t, err := amountTemplate(g.AmountOf)
		if err != nil || len(t.Paths()) != 1 || t.Paths()[0].Root != "args" {
			bad("amount_of is %.100q, want a path like args.amount", g.AmountOf)
		}
		if !decimal.MatchString(g.MaxAmount) {
			bad("max_amount is %.50q, want a decimal like 250.00", g.MaxAmount)
		}
	}
	if g.Maker.Name == "" {
		bad("nobody made it: the principal is empty")
	}
	return errors.Join(errs...)
}

func amountTemplate(path string) (*spec.Template, error) { return spec.TextTemplate("${" + path + "}") }

// Allows reports whether g is about request r as it is asked, and what it would use of
// its amount ("0" without one). What cannot be decided is not allowed. It is pure, and
// looks neither at the clock nor at what was used: the write that uses it does.
func (g Grant) Allows(r Request) (amount string, ok bool) {
	if r.Kind != events.ApprovalAction || g.Tool != r.Tool || g.Namespace != r.Namespace || g.Agent != "" && g.Agent != r.Agent || !g.may(r) {
		return "", false
	}
	args := map[string]json.RawMessage{"args": r.Args}
	if g.When != "" {
		c, err := spec.NewCondition(g.When, "args")
		if err != nil {
			return "", false
		}
		if holds, err := c.Eval(args); err != nil || !holds {
			return "", false
		}
	}
	if g.AmountOf == "" {
		return "0", true
	}
	t, err := amountTemplate(g.AmountOf)
	if err != nil {
		return "", false
	}
	raw, err := t.Render(args)
	if err != nil {
		return "", false
	}
	if json.Unmarshal(raw, &amount) != nil { // a number: spelled as a decimal
		canonical, err := events.Canonical(raw)
		if err != nil {
			return "", false
		}
		amount = string(canonical)
	}
	return amount, decimal.MatchString(amount)
}

// may reports whether who made g may decide r alone, and with nothing but a yes.
func (g Grant) may(r Request) bool {
	if g.mayNot(r) != "" {
		return false
	}
	if r.Rule == nil {
		return true
	}
	rest := *r.Rule
	rest.Deciders, rest.RequesterDenied = nil, false
	rest.RemindMs, rest.Escalate, rest.AtExpiry, rest.Calendar = nil, nil, "", nil // what follows while nobody decides
	wanted, err := events.Marshal(rest)
	return err == nil && string(wanted) == "{}" // whatever else a rule wants, a grant does not give
}

func (g Grant) mayNot(r Request) string {
	return MayNot(r, Person{Name: g.Maker.Name, Groups: g.Maker.Groups, Role: g.Maker.Role})
}

// GrantOf returns the id of the grant that decided; false when somebody else did.
func GrantOf(decidedBy string) (id string, ok bool) { return strings.CutPrefix(decidedBy, grantPrefix) }

// Attempt is the yes that g gives to r.
func (g Grant) Attempt(r Request) Attempt {
	return Attempt{ID: r.ID, Namespace: r.Namespace, Decision: events.Approve, Digest: r.Digest, By: grantPrefix + g.ID, Door: DoorGrant}
}

// MakeGrant makes a grant that lasts so long. With like, the id of a request, it is
// about the same tool and agent, and who makes it must be allowed to decide that.
func (s *Service) MakeGrant(ctx context.Context, g Grant, lasts time.Duration, like events.ApprovalID) (Grant, error) {
	if like != "" {
		r, err := s.reader.Get(ctx, g.Namespace, like)
		if err != nil {
			return Grant{}, err
		}
		if why := g.mayNot(r); why != "" {
			return Grant{}, &Conflict{Outcome: NotAllowed, Request: r, Detail: why}
		}
		if n := r.Quorum(); n > 1 {
			return Grant{}, fmt.Errorf("%w: approval %s needs %d people, and a grant is none of them; let people decide these", ErrInvalid, r.ID, n)
		}
		if r.NeedsComment() {
			return Grant{}, fmt.Errorf("%w: approval %s needs a comment, and a grant has none to give; let people decide these", ErrInvalid, r.ID)
		}
		if g.Tool == "" {
			g.Tool, g.Agent = r.Tool, r.Agent
		}
	}
	if err := g.Check(lasts); err != nil {
		return Grant{}, err
	}
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	g.ID = "g-" + hex.EncodeToString(id[:])
	g, err := s.grants.MakeGrant(ctx, g, lasts)
	if err == nil {
		s.log.InfoContext(ctx, "grant made", "grant", g.ID, "tool", g.Tool, telemetry.KeyAgent, g.Agent, telemetry.KeyPrincipal, g.Maker.Name)
	}
	return g, err
}

// Grant returns one grant; ErrNotFound.
func (s *Service) Grant(ctx context.Context, namespace, id string) (Grant, error) {
	return s.grants.Grant(ctx, namespace, id)
}

// ListGrants returns grants, newest first.
func (s *Service) ListGrants(ctx context.Context, f GrantFilter) ([]Grant, error) {
	return s.grants.ListGrants(ctx, f)
}

// RevokeGrant ends a grant: nothing that is asked afterwards is approved by it.
// ErrNotFound.
func (s *Service) RevokeGrant(ctx context.Context, namespace, id, by string) (Grant, error) {
	g, err := s.grants.RevokeGrant(ctx, namespace, id, by)
	if err == nil {
		s.log.InfoContext(ctx, "grant revoked", "grant", g.ID, telemetry.KeyPrincipal, by)
	}
	return g, err
}
