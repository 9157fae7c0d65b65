package oidc

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-run/holdfast/internal/authn"
)

// Everybody is the group of a mapping that everybody is in who can sign in.
const Everybody = "*"

// Grant is what a person may be: a role in a namespace.
type Grant struct {
	Namespace string
	Role      authn.Role
}

// Mapping says what the groups of a provider may be here, in the order in which it
// was written.
type Mapping []mapped

type mapped struct {
	group string
	grant Grant
}

// ParseMapping reads lines GROUP=NAMESPACE/ROLE. The group may have "=" in it.
func ParseMapping(lines []string) (Mapping, error) {
	var m Mapping
	for _, line := range lines {
		i := strings.LastIndex(line, "=")
		if i < 1 {
			return nil, fmt.Errorf("%q is not GROUP=NAMESPACE/ROLE, like ops=default/operator", line)
		}
		namespace, name, _ := strings.Cut(line[i+1:], "/")
		role, err := authn.ParseRole(name)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
		if !authn.ValidNamespace(namespace) {
			return nil, fmt.Errorf("%q: %q is not a namespace: use a-z, 0-9 and -, at most 63", line, namespace)
		}
		m = append(m, mapped{group: line[:i], grant: Grant{Namespace: namespace, Role: role}})
	}
	return m, nil
}

// Grants returns what a person in groups may be, without what another grant of the
// same namespace includes: an admin is everything, and everybody is a viewer. An
// operator and an approver are two, and the person chooses. The first, in the order of
// the mapping, is what the person is at first.
func (m Mapping) Grants(groups []string) []Grant {
	var all []Grant
	for _, line := range m {
		if (line.group == Everybody || slices.Contains(groups, line.group)) && !slices.Contains(all, line.grant) {
			all = append(all, line.grant)
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(g Grant) bool {
		return slices.ContainsFunc(all, func(other Grant) bool {
			return other.Namespace == g.Namespace && other.Role != g.Role && other.Role.Allows(g.Role)
		})
	})
}
