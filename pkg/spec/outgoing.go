package spec

import (
	"net/netip"
	"strconv"
	"strings"
)

// TLS says how the other side of https is verified and what it is shown. What
// is read from secrets is PEM. There is no way not to verify.
type TLS struct {
	// CA holds the only authorities that are trusted; default the system's.
	CA SecretRef `json:"ca,omitzero"`
	// ServerName is who the certificate must be for; default the URL's host.
	ServerName string `json:"serverName,omitempty"`
	MinVersion string `json:"minVersion,omitempty"` // TLS12, the default, or TLS13
	// Cert and Key are what we show: both or none.
	Cert SecretRef `json:"cert,omitzero"`
	Key  SecretRef `json:"key,omitzero"` // of Cert
}

// Versions of TLS.
const (
	TLS12 = "1.2"
	TLS13 = "1.3"
)

func (t *TLS) check(d *decoder, s spot) {
	if t == nil {
		return
	}
	if *t == (TLS{}) {
		d.fail(s, "says nothing; give ca, serverName, minVersion, or cert and key")
	}
	if t.ServerName != "" && (len(t.ServerName) > 253 || !hostPattern.MatchString(t.ServerName) || strings.HasPrefix(t.ServerName, "*")) {
		d.fail(s.at("serverName"), "%q is not a host name in lower case", shorten(t.ServerName))
	}
	if t.MinVersion != "" {
		d.oneOf(s.at("minVersion"), t.MinVersion, TLS12, TLS13)
	}
	if t.Cert.IsZero() != t.Key.IsZero() {
		d.fail(s, "cert and key belong together: give both or none")
	}
}

// maxAllowHosts bounds a list of hosts.
const maxAllowHosts = 50

// allowHosts checks the hosts whose private addresses may be reached.
func (d *decoder) allowHosts(s spot, hosts []string) {
	if len(hosts) > maxAllowHosts {
		d.fail(s, "has %d hosts; at most %d are allowed", len(hosts), maxAllowHosts)
		return
	}
	for i, h := range hosts {
		if !inHostForm(h) {
			d.fail(s.at(i), "%q is not a host; write \"billing.internal\", \"10.1.2.3\", \"[fd00::1]\" or one of them with :PORT, in lower case", shorten(h))
		}
	}
}

// inHostForm reports whether h is a host name or an address, perhaps with a
// port. An IPv6 address stands in brackets.
func inHostForm(h string) bool {
	name, port, cut := strings.Cut(h, ":")
	if strings.HasPrefix(h, "[") {
		inside, rest, ok := strings.Cut(h[1:], "]")
		a, err := netip.ParseAddr(inside)
		if !ok || err != nil || !a.Is6() || a.Zone() != "" || rest != "" && rest[0] != ':' {
			return false
		}
		name, port, cut = "v6", strings.TrimPrefix(rest, ":"), rest != ""
	}
	if cut {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || port[0] == '0' {
			return false
		}
	}
	return len(name) <= 253 && hostPattern.MatchString(name) && !strings.HasPrefix(name, "*")
}

// checkOutgoing checks what a tool says about its requests.
func (t *Tool) checkOutgoing(d *decoder, s spot) {
	t.TLS.check(d, s.at("tls"))
	d.allowHosts(s.at("allowHosts"), t.AllowHosts)
	t.Limits.check(d, s.at("limits"))
	if t.Limits != nil && (t.Signal != nil || t.AnsweredByRunner() != nil) {
		d.also(s.at("limits"), "is for tools that a worker calls")
	}
	switch {
	case t.MCP != nil && t.TLS != nil:
		d.also(s.at("tls"), "belongs into the MCPServer: the tools of a server share its connection")
	case t.HTTP == nil && t.TLS != nil:
		d.also(s.at("tls"), "is for tools with http")
	}
	switch {
	case t.MCP != nil && len(t.AllowHosts) > 0:
		d.also(s.at("allowHosts"), "belongs into the MCPServer: the tools of a server share its connection")
	case t.HTTP == nil && t.Builtin == "" && len(t.AllowHosts) > 0:
		d.also(s.at("allowHosts"), "is for tools that make requests: http and fetch_page")
	}
	if t.Signal != nil && t.OutputSchema != nil {
		d.also(s.at("outputSchema"), "is for tools that are called; this one waits for a signal")
	}
}
