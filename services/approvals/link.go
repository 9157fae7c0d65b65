package approvals

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// LinkPath is where links lead; the token stands behind it.
const LinkPath = "/decide/"

// TokenChars is the length of a link's token.
const TokenChars = 43

// linkShows is how long a link shows its request after the request's time.
const linkShows = 7 * 24 * time.Hour

// Doors, as the record of a decision names them.
const (
	DoorAPI   = "api"
	DoorLink  = "link"
	DoorSlack = "slack"
	DoorPage  = "console"
)

// Link lets one person see one request and decide it.
type Link struct {
	Namespace  string
	ApprovalID events.ApprovalID
	Channel    string
	Person     string
	ExpiresAt  time.Time // it shows nothing any more
	// As the channel has them now; not kept: groups of the person, and its digest.
	Groups []string
	Digest *spec.Digest
}

// Links keeps links by the hash of their token.
type Links interface {
	AddLink(ctx context.Context, hash [32]byte, l Link) error
	// Link returns the link of a token's hash; ErrNotFound also once it has expired.
	Link(ctx context.Context, hash [32]byte) (Link, error)
}

// Who is the link's person.
func (l Link) Who() Person { return Person{Name: l.Person, Groups: l.Groups, Role: roleApprover} }

// newToken mints what only the message to the person holds.
func newToken() (token string, hash [32]byte) {
	var raw [32]byte
	_, _ = rand.Read(raw[:]) // never fails
	token = base64.RawURLEncoding.EncodeToString(raw[:])
	return token, sha256.Sum256([]byte(token))
}

// mintLink makes a link of a person to r and returns its address. Only its hash is kept.
func mintLink(ctx context.Context, links Links, base string, r Request, channel, person string) (string, error) {
	token, hash := newToken()
	err := links.AddLink(ctx, hash, Link{Namespace: r.Namespace, ApprovalID: r.ID, Channel: channel, Person: person, ExpiresAt: r.ExpiresAt.Add(linkShows)})
	if err != nil {
		return "", fmt.Errorf("store a link to approval %s: %w", r.ID, err)
	}
	return base + LinkPath + token, nil
}

// Linked returns what a link is for. ErrNotFound when there is none, or when the
// person is no longer one of the channel's: who names the people can take a link
// back.
func (s *Service) Linked(ctx context.Context, token string) (Link, Request, error) {
	if s.links == nil || len(token) != TokenChars {
		return Link{}, Request{}, ErrNotFound
	}
	l, err := s.links.Link(ctx, sha256.Sum256([]byte(token)))
	if err != nil {
		return Link{}, Request{}, err
	}
	c, err := s.channel(ctx, l.Namespace, l.Channel)
	if errors.Is(err, ErrNoChannel) {
		return Link{}, Request{}, ErrNotFound
	}
	if err != nil {
		return Link{}, Request{}, fmt.Errorf("channel of a link: %w", err)
	}
	who, ok := c.Person(l.Person)
	if !ok {
		return Link{}, Request{}, ErrNotFound
	}
	l.Groups, l.Digest = who.Groups, c.Digest
	r, err := s.reader.Get(ctx, l.Namespace, l.ApprovalID)
	return l, r, err
}

// DecideLinked decides what a link is for in its person's name. Whatever a names of
// request, person and door is replaced.
func (s *Service) DecideLinked(ctx context.Context, token string, a Attempt) (Request, bool, error) {
	l, _, err := s.Linked(ctx, token)
	if err != nil {
		return Request{}, false, err
	}
	a.ID, a.Namespace, a.By, a.Groups, a.Role, a.Door = l.ApprovalID, l.Namespace, l.Person, l.Groups, roleApprover, DoorLink
	return s.Decide(ctx, a)
}

func (s *Service) channel(ctx context.Context, namespace, name string) (*spec.Channel, error) {
	if s.channels.Definition == nil {
		return nil, ErrNoChannel
	}
	return s.channels.Definition(ctx, namespace, name)
}
