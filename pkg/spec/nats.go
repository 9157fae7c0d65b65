package spec

import (
	"regexp"
	"strings"
)

// NATS makes a tool of a program that answers requests on a NATS subject.
type NATS struct {
	// Service is answered on hf.toolsvc.<service>.
	Service string `json:"service,omitempty"`
	// Subject is any other subject, as endpoints of NATS micro services have
	// them. The NATS user of the tools service must be allowed to publish on it.
	// Exactly one of Service and Subject is given.
	Subject string `json:"subject,omitempty"`
}

// ToolServicePrefix begins the subjects that the tools service asks by itself.
const ToolServicePrefix = "hf.toolsvc."

// RequestSubject is where the request goes.
func (n *NATS) RequestSubject() string {
	if n.Service != "" {
		return ToolServicePrefix + n.Service
	}
	return n.Subject
}

var subjectPattern = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)

func (n *NATS) check(d *decoder, s spot) {
	d.exactlyOne(s, map[string]bool{"service": n.Service != "", "subject": n.Subject != ""})
	if n.Service != "" {
		d.name(s.at("service"), n.Service)
	}
	switch {
	case n.Subject == "":
	case len(n.Subject) > 200 || !subjectPattern.MatchString(n.Subject):
		d.fail(s.at("subject"), "%q is not a subject: words of A-Z a-z 0-9 _ - joined by dots, 200 bytes at most, without wildcards", shorten(n.Subject))
	case strings.HasPrefix(n.Subject, "hf.") && !strings.HasPrefix(n.Subject, ToolServicePrefix), n.Subject == "hf", strings.HasPrefix(n.Subject, "_"):
		d.fail(s.at("subject"), "%q is Holdfast's or NATS's own; under hf. only %s* can be asked", shorten(n.Subject), ToolServicePrefix)
	}
}
