package oidc

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// What names a person.
const (
	NameEmail   = "email" // the verified address, in lower case
	NameSubject = "sub"   // the provider's own name, "@" and its host
)

// MaxGroups is how many groups of a person are taken.
const MaxGroups = 200

// Person is who signed in, as the provider says and we checked.
type Person struct {
	Issuer, Subject string
	// Name is what commands and decisions record. It has an "@" and only characters
	// that a rule about who may decide can name.
	Name   string
	Groups []string // sorted, each once; as the provider spells them
}

var (
	namePattern  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@+-]{0,119}$`)
	groupPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@+-]{0,62}$`)
)

func (c Config) person(issuer, subject string, claims map[string]any) (Person, error) {
	p := Person{Issuer: issuer, Subject: subject}
	switch c.NameClaim {
	case NameSubject:
		host := ""
		if u, err := url.Parse(issuer); err == nil {
			host = u.Hostname()
		}
		p.Name = subject + "@" + host
	default:
		email, _ := claims["email"].(string)
		if email == "" {
			return Person{}, &RefusedError{Reason: "The sign-in provider did not tell your e-mail address, which is your name here. An administrator lets it send the scope email."}
		}
		// Some providers send a string.
		if v := claims["email_verified"]; v != true && v != "true" {
			return Person{}, &RefusedError{Reason: "Your e-mail address is not verified at the sign-in provider, so it cannot be your name here. Verify it there, then begin anew."}
		}
		p.Name = strings.ToLower(email)
		if strings.Count(p.Name, "@") != 1 {
			p.Name = ""
		}
	}
	if !namePattern.MatchString(p.Name) || !strings.Contains(strings.Trim(p.Name, "@"), "@") {
		return Person{}, &RefusedError{Reason: "The name that the sign-in provider gives you cannot be one here: letters and digits of ASCII and . _ @ + -, at most 120."}
	}
	value, _ := lookup(claims, c.GroupsClaim)
	switch v := value.(type) {
	case string:
		p.Groups = []string{v}
	case []any:
		for _, g := range v {
			if g, ok := g.(string); ok {
				p.Groups = append(p.Groups, g)
			}
		}
	}
	slices.Sort(p.Groups)
	p.Groups = slices.Compact(p.Groups)
	if len(p.Groups) > MaxGroups {
		return Person{}, &RefusedError{Reason: fmt.Sprintf("The sign-in provider names %d groups of yours, more than %d. An administrator lets it send fewer.", len(p.Groups), MaxGroups)}
	}
	return p, nil
}

// Deciding are the groups that a rule about who may decide can name.
func (p Person) Deciding() []string {
	return slices.DeleteFunc(slices.Clone(p.Groups), func(g string) bool { return !groupPattern.MatchString(g) })
}

// lookup finds a member by its name, or by the names of the objects that lead to
// it, with dots between: realm_access.roles.
func lookup(claims map[string]any, name string) (any, bool) {
	if v, ok := claims[name]; ok {
		return v, true
	}
	first, rest, ok := strings.Cut(name, ".")
	if !ok {
		return nil, false
	}
	inner, ok := claims[first].(map[string]any)
	if !ok {
		return nil, false
	}
	return lookup(inner, rest)
}
