package egress

import (
	"container/list"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync"

	"github.com/holdfast-run/holdfast/pkg/spec"
)

// Reach is what a definition says about its requests. The zero value is public
// addresses and the system's authorities.
type Reach struct {
	// Hosts may be reached although their addresses are private: "a.internal",
	// "10.1.2.3:8080", "[fd00::1]".
	Hosts []string
	// CA, Cert and Key are PEM.
	CA, Cert, Key string
	ServerName    string
	MinVersion    uint16
}

// ReachOf resolves what a definition says. Errors name places, never values.
func ReachOf(t *spec.TLS, hosts []string, lookupEnv func(string) (string, bool), readFile func(string) ([]byte, error)) (Reach, error) {
	r := Reach{Hosts: hosts}
	if t == nil {
		return r, nil
	}
	r.ServerName = t.ServerName
	if t.MinVersion == spec.TLS13 {
		r.MinVersion = tls.VersionTLS13
	}
	for _, s := range []struct {
		name string
		ref  spec.SecretRef
		to   *string
	}{{"ca", t.CA, &r.CA}, {"cert", t.Cert, &r.Cert}, {"key", t.Key, &r.Key}} {
		if s.ref.IsZero() {
			continue
		}
		var err error
		if *s.to, err = s.ref.Resolve(lookupEnv, readFile); err != nil {
			return Reach{}, fmt.Errorf("tls.%s: %w", s.name, err)
		}
	}
	if _, err := r.tls(); err != nil {
		return Reach{}, err
	}
	return r, nil
}

// tls is how the other side is verified.
func (r Reach) tls() (*tls.Config, error) {
	c := &tls.Config{MinVersion: max(r.MinVersion, tls.VersionTLS12), ServerName: r.ServerName}
	if r.CA != "" {
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM([]byte(r.CA)) {
			return nil, errors.New("tls.ca holds no certificate in PEM")
		}
	}
	if r.Cert != "" || r.Key != "" {
		pair, err := tls.X509KeyPair([]byte(r.Cert), []byte(r.Key))
		if err != nil { // its text may quote what it read
			return nil, errors.New("tls.cert and tls.key are not a certificate in PEM and its key")
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// key tells settings apart; connections are shared by those of one key.
func (r Reach) key() string {
	if len(r.Hosts) == 0 && r.CA == "" && r.Cert == "" && r.ServerName == "" && r.MinVersion == 0 {
		return ""
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q %q %d", r.Hosts, r.CA, r.Cert, r.Key, r.ServerName, r.MinVersion))
	return hex.EncodeToString(sum[:])
}

// names reports whether the address that is dialled, "host:port" before DNS, is
// one of the hosts.
func (r Reach) names(address string) bool {
	host, port, ok := cutPort(strings.ToLower(address))
	if !ok {
		return false
	}
	for _, h := range r.Hosts {
		wantHost, wantPort, cut := cutPort(strings.ToLower(h))
		if !cut {
			wantHost, wantPort = strings.ToLower(h), port
		}
		if wantPort == port && sameHost(wantHost, host) {
			return true
		}
	}
	return false
}

// cutPort splits "host:port"; false when there is no port.
func cutPort(address string) (host, port string, ok bool) {
	i := strings.LastIndexByte(address, ':')
	if i < 0 || strings.HasSuffix(address, "]") {
		return "", "", false
	}
	return address[:i], address[i+1:], true
}

func sameHost(a, b string) bool {
	a, b = strings.Trim(a, "[]"), strings.Trim(b, "[]")
	x, xerr := netip.ParseAddr(a)
	y, yerr := netip.ParseAddr(b)
	if xerr == nil && yerr == nil {
		return x.Unmap() == y.Unmap()
	}
	return strings.TrimSuffix(a, ".") == strings.TrimSuffix(b, ".")
}

// trippers makes and shares transports by settings.
type trippers struct {
	config Config

	mu    sync.Mutex
	used  *list.List // of *tripper, the last used first
	known map[string]*list.Element
}

type tripper struct {
	key   string
	trip  http.RoundTripper
	bases []*http.Transport
}

// maxTrippers bounds the settings whose connections are kept.
const maxTrippers = 128

// get returns the transport of some settings. once makes a fresh connection for
// each request.
func (t *trippers) get(r Reach, once bool) (http.RoundTripper, error) {
	key := fmt.Sprintf("%s/%t", r.key(), once)
	t.mu.Lock()
	defer t.mu.Unlock()
	if e, ok := t.known[key]; ok {
		t.used.MoveToFront(e)
		return e.Value.(*tripper).trip, nil
	}
	made, err := t.make(key, r, once)
	if err != nil {
		return nil, err
	}
	t.known[key] = t.used.PushFront(made)
	for len(t.known) > maxTrippers {
		oldest := t.used.Remove(t.used.Back()).(*tripper)
		delete(t.known, oldest.key)
		for _, b := range oldest.bases {
			b.CloseIdleConnections() // those in use end with their requests
		}
	}
	return made.trip, nil
}

func (t *trippers) make(key string, r Reach, once bool) (*tripper, error) {
	if t.config.NoHosts {
		r.Hosts = nil
	}
	settings, err := r.tls()
	if err != nil {
		return nil, err
	}
	guard := func(base http.RoundTripper) http.RoundTripper {
		return &guarded{base: base, breaker: t.config.Breaker, metrics: t.config.Metrics, key: r.key()}
	}
	own := transport(t.config.Allow, r, settings)
	out := &tripper{key: key, trip: guard(own), bases: []*http.Transport{own}}
	switch {
	case once:
		// net/http repeats a request by itself when a connection that was used
		// before breaks and the request has no body, or carries an Idempotency-Key.
		// A connection that was never used before is never repeated on.
		own.DisableKeepAlives = true
		own.ForceAttemptHTTP2 = false
		own.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	case r.CA != "" || r.Cert != "" || r.ServerName != "":
		plain := transport(t.config.Allow, Reach{Hosts: r.Hosts}, &tls.Config{MinVersion: max(r.MinVersion, tls.VersionTLS12)})
		out.bases = append(out.bases, plain)
		out.trip = &atHome{own: out.trip, away: guard(plain)}
	}
	return out, nil
}

// atHome shows a client's certificate, and trusts its authority, only where the
// definition sent the request: a redirect to another host gets neither.
type atHome struct{ own, away http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (a *atHome) RoundTrip(r *http.Request) (*http.Response, error) {
	for from := r.Response; from != nil && from.Request != nil; from = from.Request.Response {
		if !sameSite(from.Request, r) {
			return a.away.RoundTrip(r)
		}
	}
	return a.own.RoundTrip(r)
}

func sameSite(a, b *http.Request) bool {
	return a.URL.Scheme == b.URL.Scheme && strings.EqualFold(a.URL.Host, b.URL.Host)
}
