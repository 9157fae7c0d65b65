package console

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/pkg/spec"
)

// Apply parses the files of one apply, checks that everything they name exists
// and stores all of them or none. Problems of the definitions come back
// together as *spec.Error; see spec.Problems. Documents that name no namespace
// are the caller's; those of another one are a problem.
func (s *Service) Apply(ctx context.Context, namespace, principal string, files []spec.File) ([]Applied, error) {
	docs, err := spec.ParseAll(files)
	if err != nil {
		return nil, err
	}
	set, err := newSet(namespace, principal, docs)
	if err != nil {
		return nil, err
	}
	if len(set.Documents) == 0 {
		return nil, &spec.Error{Message: "there is no document in what was sent"}
	}
	if err := s.unpriced(ctx, namespace, docs); err != nil {
		return nil, err
	}
	out, err := s.Store.Apply(ctx, set)
	if missing, ok := errors.AsType[*MissingError](err); ok {
		return nil, s.explain(ctx, set, missing)
	}
	for i := range out {
		for j := range docs {
			if docs[j].Kind == out[i].Kind && docs[j].Name == out[i].Name {
				out[i].Warnings = docs[j].Warnings(time.Now())
			}
		}
	}
	return out, err
}

// unpriced refuses ceilings in money that nothing could be counted for.
func (s *Service) unpriced(ctx context.Context, namespace string, docs []spec.Document) error {
	var failed error
	bad := spec.Unpriced(docs, func(kind, name string) *spec.Document {
		r, err := s.Store.Resource(ctx, namespace, kind, name)
		if err != nil {
			if !errors.Is(err, ErrNotFound) {
				failed = err
			}
			return nil
		}
		doc, err := spec.Decode(r.Body)
		failed = errors.Join(failed, err)
		return doc
	})
	problems := make([]error, 0, len(bad)+1)
	for _, p := range bad {
		problems = append(problems, p)
	}
	return errors.Join(append(problems, failed)...)
}

// newSet makes the set that docs are. It is pure.
func newSet(namespace, principal string, docs []spec.Document) (Set, error) {
	set := Set{Namespace: namespace, Principal: principal}
	var problems []error
	inSet := map[ResourceName]bool{}
	for _, d := range docs {
		place := ResourceName{d.Kind, d.Name}
		switch {
		case d.Namespace != "" && d.Namespace != namespace:
			problems = append(problems, &spec.Error{File: d.File, Line: d.Line, Column: 1, Field: "metadata.namespace", Message: fmt.Sprintf(
				"the document is for the namespace %s and the request for %s; use --namespace %s and a token for it", d.Namespace, namespace, d.Namespace)})
		case inSet[place]: // once with the namespace spelled out, once without
			problems = append(problems, &spec.Error{File: d.File, Line: d.Line, Column: 1, Field: "metadata.name",
				Message: fmt.Sprintf("%s %q stands twice in this set", d.Kind, d.Name)})
		}
		inSet[place] = true
	}
	if len(problems) > 0 {
		return Set{}, errors.Join(problems...)
	}
	for i := range docs {
		d := &docs[i]
		place := ResourceName{d.Kind, d.Name}
		set.Documents = append(set.Documents, Document{ResourceName: place, Digest: d.Digest, Body: d.Body})
		for _, ref := range d.References() {
			if to := (ResourceName{ref.Kind, ref.Name}); !inSet[to] {
				set.Needs = append(set.Needs, Need{ResourceName: to, File: d.File, Line: d.Line, Field: ref.Field, By: place})
			}
		}
	}
	return set, nil
}

// explain turns missing references into problems that name the nearest
// definition there is.
func (s *Service) explain(ctx context.Context, set Set, missing *MissingError) error {
	known := map[string][]string{}
	for _, d := range set.Documents {
		known[d.Kind] = append(known[d.Kind], d.Name)
	}
	asked := map[string]bool{}
	problems := make([]error, 0, len(missing.Missing))
	for _, n := range missing.Missing {
		if !asked[n.Kind] {
			asked[n.Kind] = true
			stored, err := s.Resources(ctx, set.Namespace, n.Kind, ResourceName{}, 500)
			if err != nil {
				return err
			}
			for _, r := range stored {
				known[n.Kind] = append(known[n.Kind], r.Name)
			}
		}
		message := fmt.Sprintf("%s %q is neither in this set nor applied before", n.Kind, n.Name)
		if near := spec.Nearest(n.Name, known[n.Kind]); near != "" {
			message += fmt.Sprintf("; did you mean %q?", near)
		}
		problems = append(problems, &spec.Error{File: n.File, Line: n.Line, Column: 1, Field: n.Field, Message: message})
	}
	return errors.Join(problems...)
}
