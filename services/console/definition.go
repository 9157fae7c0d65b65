package console

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

const (
	// MaxVersions is how many changes of a name are listed.
	MaxVersions = 200
	// RunsByVersion is how many of the newest runs of a name are counted by version.
	RunsByVersion = 5000
	// maxReferrers bounds the definitions that are looked through for a reference.
	maxReferrers = 300
)

// Version is one change of what a name means.
type Version struct {
	Number  int // counts the changes of the name, from 1; 0: it was stored before they were kept
	Digest  events.Digest
	At      time.Time
	By      string
	Current bool
	Runs    int64 // of the newest RunsByVersion runs of the name
	Open    int64 // of those
}

// Activity is what the runs of one agent or flow do now, and did in the last 24 hours.
type Activity struct {
	Open          int64
	Ended, Failed int64 // within 24 hours
	CostMicroUSD  int64 // of those that ended
}

// Referrer is a definition that names another one.
type Referrer struct {
	ResourceName
	Fields []string // where it does
}

// DefinitionReader reads what became of the definitions of a namespace.
type DefinitionReader interface {
	// Defined lists current definitions of a kind with their bodies, by name.
	Defined(ctx context.Context, namespace, kind, after string, limit int) ([]Resource, error)
	// KindCounts says how many names of each kind there are.
	KindCounts(ctx context.Context, namespace string) (map[string]int64, error)
	// Changed lists the changes of a name, newest first; none for an unknown one.
	Changed(ctx context.Context, namespace, kind, name string) ([]Version, error)
	// Activities counts the runs of a kind by name.
	Activities(ctx context.Context, namespace, kind string) (map[string]Activity, error)
	// Mentions returns at most limit current definitions whose text has the name in it.
	Mentions(ctx context.Context, namespace, name string, limit int) ([]Resource, error)
}

// FindVersion picks what a person calls a version: a number, the digest or its
// beginning, or nothing for the current one. ErrNotFound when there is none.
func FindVersion(all []Version, name string) (Version, error) {
	n, _ := strconv.Atoi(name)
	i := slices.IndexFunc(all, func(v Version) bool {
		switch {
		case name == "":
			return v.Current
		case n > 0:
			return v.Number == n
		}
		return string(v.Digest) == name
	})
	if i < 0 {
		return Version{}, fmt.Errorf("version %q: %w", name, ErrNotFound)
	}
	return all[i], nil
}

// Body reads one version of a definition; version is as FindVersion takes it.
func (s *Service) Body(ctx context.Context, namespace string, r ResourceName, version string) (Version, json.RawMessage, error) {
	all, err := s.Changed(ctx, namespace, r.Kind, r.Name)
	if err != nil {
		return Version{}, nil, err
	}
	v, err := FindVersion(all, version)
	if err != nil {
		return Version{}, nil, err
	}
	body, err := s.bodyOf(ctx, namespace, r, v)
	return v, body, err
}

func (s *Service) bodyOf(ctx context.Context, namespace string, r ResourceName, v Version) (json.RawMessage, error) {
	found, err := s.Versions(ctx, namespace, []events.Ref{{Kind: r.Kind, Name: r.Name, Digest: v.Digest}})
	if err != nil {
		return nil, err
	}
	// The same text may be stored under another name; its metadata differs, so its digest does.
	i := slices.IndexFunc(found, func(d Definition) bool { return d.Name == r.Name })
	if i < 0 {
		return nil, fmt.Errorf("version %s of %s %s: %w", v.Digest, r.Kind, r.Name, ErrNotFound)
	}
	return found[i].Body, nil
}

// Compared is how two versions of a definition differ.
type Compared struct {
	From, To Version
	Changes  []Change
	More     bool
}

// Compare lists what differs between two versions, member by member. An empty to is
// the current version, an empty from the one before to.
func (s *Service) Compare(ctx context.Context, namespace string, r ResourceName, from, to string) (c Compared, err error) {
	all, err := s.Changed(ctx, namespace, r.Kind, r.Name)
	if err != nil {
		return c, err
	}
	if c.To, err = FindVersion(all, to); err != nil {
		return c, err
	}
	if from == "" {
		i := slices.Index(all, c.To)
		c.From = all[min(i+1, len(all)-1)]
	} else if c.From, err = FindVersion(all, from); err != nil {
		return c, err
	}
	before, err := s.bodyOf(ctx, namespace, r, c.From)
	if err != nil {
		return c, err
	}
	after, err := s.bodyOf(ctx, namespace, r, c.To)
	if err != nil {
		return c, err
	}
	ref := func(v Version) events.Ref { return events.Ref{Kind: r.Kind, Name: r.Name, Digest: v.Digest} }
	c.Changes, c.More = Changes([]Definition{{ref(c.From), before}}, []Definition{{ref(c.To), after}})
	c.Changes = slices.DeleteFunc(c.Changes, func(x Change) bool { return x.Path == "" }) // the digests are in From and To
	return c, nil
}

// Referrers lists the current definitions that name this one.
func (s *Service) Referrers(ctx context.Context, namespace string, r ResourceName) ([]Referrer, error) {
	found, err := s.Mentions(ctx, namespace, r.Name, maxReferrers)
	if err != nil {
		return nil, err
	}
	var out []Referrer
	for _, m := range found {
		doc, err := spec.Decode(m.Body)
		if err != nil {
			continue // of a newer release; it is listed where it is defined
		}
		one := Referrer{ResourceName: m.ResourceName}
		for _, ref := range doc.References() {
			if ref.Kind == r.Kind && ref.Name == r.Name {
				one.Fields = append(one.Fields, ref.Field)
			}
		}
		if len(one.Fields) > 0 {
			out = append(out, one)
		}
	}
	slices.SortFunc(out, func(a, b Referrer) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name)) })
	return out, nil
}
