package main

import (
	"errors"
	"net/url"
	"strings"
)

// checkPublicURL reports why text is not where other systems reach us.
func checkPublicURL(text string) error {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.Opaque != "":
		return errors.New("want an absolute http or https URL, like https://holdfast.example.com")
	case u.User != nil:
		return errors.New("must hold no user and no password")
	case u.RawQuery != "" || u.ForceQuery || strings.Contains(text, "#"):
		return errors.New("must have no query and no fragment")
	}
	return nil
}

// publicURL returns where others reach the doors, as set; nil when nobody has
// said it. A development server knows its own address once it listens; until
// then it is empty.
func (p *process) publicURL(set string) func() string {
	if set = strings.TrimRight(set, "/"); set != "" {
		return func() string { return set }
	}
	if p.dev == nil {
		return nil
	}
	return func() string {
		reached, _ := p.reached.Load().(string)
		return reached
	}
}
