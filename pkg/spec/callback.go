package spec

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// MaxCallbackURL bounds the address that a run's end is posted to, in bytes.
const MaxCallbackURL = 2 << 10

// Callback lets who starts a run name an address that its end is posted to.
type Callback struct {
	// Secrets sign what is posted, each with a signature of its own, so one can
	// be replaced without a gap. Standard Webhooks: whsec_ and base64.
	Secrets []SecretRef `json:"secrets"`
	// Hosts are the only hosts that may be named: "example.com", or
	// "*.example.com" for every name below it. None: every host may be.
	Hosts []string `json:"hosts,omitempty"`
	// AllowHosts and TLS are as in Tool.
	AllowHosts []string `json:"allowHosts,omitempty"`
	TLS        *TLS     `json:"tls,omitempty"` // of the connection; absent: the system's authorities
}

// hostPattern is a host name or an IPv4 address, in lower case, perhaps with
// "*." before it.
var hostPattern = regexp.MustCompile(`^(\*\.)?[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$`)

func (c *Callback) check(d *decoder, s spot) {
	if c == nil {
		return
	}
	d.require(s.at("secrets"), len(c.Secrets) > 0, "at least one {env: NAME} or {file: PATH}, to sign what is posted")
	d.secrets(s.at("secrets"), c.Secrets)
	c.TLS.check(d, s.at("tls"))
	d.allowHosts(s.at("allowHosts"), c.AllowHosts)
	if len(c.Hosts) > 100 {
		d.fail(s.at("hosts"), "has %d hosts; at most 100 are allowed", len(c.Hosts))
		return
	}
	for i, h := range c.Hosts {
		if len(h) > 253 || !hostPattern.MatchString(h) {
			d.fail(s.at("hosts", i), "%q is not a host; write \"example.com\", or \"*.example.com\" for every name below it, in lower case and without port", shorten(h))
		}
	}
}

// CheckURL reports why address may not be posted to; nil when it may. It looks
// at the text only: where the name leads is checked when it is used.
func (c *Callback) CheckURL(address string) error {
	if address == "" {
		return errors.New("must be an absolute http or https URL")
	}
	if len(address) > MaxCallbackURL {
		return fmt.Errorf("has %d bytes; at most %d are allowed", len(address), MaxCallbackURL)
	}
	if strings.ContainsFunc(address, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("must be printable ASCII without spaces; percent-encode the rest")
	}
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return errors.New("is not a URL")
	case u.Scheme != "http" && u.Scheme != "https" || u.Opaque != "" || u.Hostname() == "":
		return errors.New("must be an absolute http or https URL")
	case u.User != nil:
		return errors.New("must hold no user and no password")
	case strings.Contains(address, "#"):
		return errors.New("must have no fragment")
	case !c.allows(u.Hostname()):
		return fmt.Errorf("host %q is not among the hosts that the definition allows", shorten(u.Hostname()))
	}
	return nil
}

func (c *Callback) allows(host string) bool {
	if len(c.Hosts) == 0 {
		return true
	}
	host = strings.ToLower(host)
	return slices.ContainsFunc(c.Hosts, func(h string) bool {
		if below, ok := strings.CutPrefix(h, "*"); ok {
			return len(host) > len(below) && strings.HasSuffix(host, below)
		}
		return host == h
	})
}
