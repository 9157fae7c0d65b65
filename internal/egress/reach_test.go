package egress

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/spec"
)

// authority is a private CA.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t}
	a.cert, a.key, a.pem, _ = a.issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	return a
}

func (a *authority) issue(c *x509.Certificate) (cert *x509.Certificate, key *ecdsa.PrivateKey, certPEM, keyPEM string) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	c.SerialNumber, c.NotBefore, c.NotAfter = big.NewInt(time.Now().UnixNano()), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	if cert, err = x509.ParseCertificate(der); err != nil {
		a.t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}))
}

// serve starts an https server of the authority for the name api.internal.
func (a *authority) serve(h http.HandlerFunc, change func(*tls.Config)) *httptest.Server {
	a.t.Helper()
	_, _, cert, key := a.issue(&x509.Certificate{Subject: pkix.Name{CommonName: "server"}, DNSNames: []string{"api.internal"}, IPAddresses: []net.IP{net.IPv6loopback},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
	if err != nil {
		a.t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(h)
	srv.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	if change != nil {
		change(srv.TLS)
	}
	srv.Config.ErrorLog = nil
	srv.StartTLS()
	a.t.Cleanup(srv.Close)
	return srv
}

func ok(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write([]byte("{}")) }

func send(t *testing.T, c *Client, r Request) (Response, *Error) {
	t.Helper()
	resp, err := c.Do(t.Context(), r)
	if err == nil {
		return resp, nil
	}
	e, isError := errors.AsType[*Error](err)
	if !isError {
		t.Fatalf("error %v is no *Error", err)
	}
	return resp, e
}

func TestDo_PrivateAuthority(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	srv := a.serve(ok, func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 })
	c := local(t)
	post := func(r Reach) *Error {
		_, err := send(t, c, Request{Method: "POST", URL: srv.URL, Body: []byte("{}"), Reach: r})
		return err
	}
	if err := post(Reach{CA: a.pem, ServerName: "api.internal"}); err != nil {
		t.Errorf("with its authority: %v", err)
	}
	for name, r := range map[string]Reach{
		"the system's authorities": {},
		"another authority":        {CA: newAuthority(t).pem, ServerName: "api.internal"},
		"another name":             {CA: a.pem, ServerName: "other.internal"},
		"no name":                  {CA: a.pem}, // 127.0.0.1 is not in the certificate
		"too old a version":        {CA: a.pem, ServerName: "api.internal", MinVersion: tls.VersionTLS13},
	} {
		if err := post(r); err == nil || err.Sent {
			t.Errorf("%s: %v, want an error and nothing sent", name, err)
		}
	}
}

// The client's certificate is shown to the host that the definition names, and
// to no other that it redirects to.
func TestDo_ClientCertificate(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	_, _, cert, key := a.issue(&x509.Certificate{Subject: pkix.Name{CommonName: "holdfast"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	demand := func(c *tls.Config) { c.ClientCAs, c.ClientAuth = pool, tls.RequireAndVerifyClientCert }
	var shown atomic.Int64
	// The other host has a certificate that the definition's authority signed; it
	// must not count there, and ours must not be shown.
	other := a.serve(func(_ http.ResponseWriter, r *http.Request) { shown.Add(int64(len(r.TLS.PeerCertificates))) }, func(c *tls.Config) {
		c.ClientCAs, c.ClientAuth = pool, tls.RequestClientCert
		c.VerifyConnection = func(s tls.ConnectionState) error { shown.Add(int64(len(s.PeerCertificates))); return nil }
	})
	srv := a.serve(func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/away":
			http.Redirect(rw, r, other.URL, http.StatusFound)
		case "/here":
			http.Redirect(rw, r, "/", http.StatusFound)
		default:
			_, _ = rw.Write([]byte(r.TLS.PeerCertificates[0].Subject.CommonName))
		}
	}, demand)
	with := Reach{CA: a.pem, ServerName: "api.internal", Cert: cert, Key: key}
	c := local(t)
	for _, r := range []Request{{Method: "POST", URL: srv.URL, Body: []byte("{}")}, {Method: "GET", URL: srv.URL, Read: true}, {Method: "GET", URL: srv.URL + "/here", Read: true}} {
		r.Reach = with
		resp, err := send(t, c, r)
		if err != nil || string(resp.Body) != "holdfast" {
			t.Errorf("%s %s: %q, %v", r.Method, r.URL, resp.Body, err)
		}
	}
	// Settings have connections of their own: without a certificate none is reused.
	without := Reach{CA: a.pem, ServerName: "api.internal"}
	if _, err := send(t, c, Request{Method: "GET", URL: srv.URL, Read: true, Reach: without}); err == nil {
		t.Error("a connection that shows a certificate was used by a definition that has none")
	}
	// The server says so after the request was written. It has not read it.
	if _, err := send(t, c, Request{Method: "POST", URL: srv.URL, Body: []byte("{}"), Reach: without}); err == nil || err.Sent && strings.Contains(err.Error(), "certificate required") {
		t.Errorf("refused for want of a certificate: %v, want not sent", err)
	}
	if _, err := send(t, c, Request{Method: "GET", URL: srv.URL + "/away", Read: true, Reach: with}); err == nil {
		t.Error("the definition's authority was trusted at another host")
	}
	if shown.Load() != 0 {
		t.Error("the certificate was shown to another host")
	}
}

func TestReachOf(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	_, _, cert, key := a.issue(&x509.Certificate{Subject: pkix.Name{CommonName: "x"}})
	secrets := map[string]string{"CA": a.pem, "CERT": cert, "KEY": key, "BAD": "hush-hush-94c1"}
	lookup := func(name string) (string, bool) { v, ok := secrets[name]; return v, ok }
	read := func(string) ([]byte, error) { return nil, errors.New("no file") }
	r, err := ReachOf(&spec.TLS{CA: spec.SecretRef{Env: "CA"}, Cert: spec.SecretRef{Env: "CERT"}, Key: spec.SecretRef{Env: "KEY"}, MinVersion: "1.3"}, []string{"h"}, lookup, read)
	if err != nil || r.MinVersion != tls.VersionTLS13 || strings.TrimSpace(r.Key) != strings.TrimSpace(key) || len(r.Hosts) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	for name, def := range map[string]*spec.TLS{
		"no such variable":  {CA: spec.SecretRef{Env: "NONE"}},
		"no such file":      {CA: spec.SecretRef{File: "/none"}},
		"no PEM":            {CA: spec.SecretRef{Env: "BAD"}},
		"no key":            {Cert: spec.SecretRef{Env: "CERT"}, Key: spec.SecretRef{Env: "BAD"}},
		"another one's key": {Cert: spec.SecretRef{Env: "CA"}, Key: spec.SecretRef{Env: "KEY"}},
	} {
		if _, err := ReachOf(def, nil, lookup, read); err == nil || strings.Contains(err.Error(), secrets["BAD"]) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// A definition that names a host reaches its private address, that of no other
// host, and no metadata. The operator may forbid it.
func TestDo_AllowHosts(t *testing.T) {
	t.Parallel()
	var back, arrived atomic.Pointer[string]
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		arrived.Store(&r.Host)
		if to := back.Swap(nil); to != nil {
			http.Redirect(rw, r, *to, http.StatusFound)
		}
	}))
	defer srv.Close()
	port := srv.URL[strings.LastIndex(srv.URL, ":")+1:]
	get := func(c *Client, url string, hosts ...string) error {
		arrived.Store(nil)
		_, err := c.Do(t.Context(), Request{Method: "GET", URL: url, Read: true, Reach: Reach{Hosts: hosts}})
		return err
	}
	closed := New(Config{})
	for _, hosts := range [][]string{{"127.0.0.1"}, {"other.internal", "127.0.0.1:" + port}} {
		if err := get(closed, srv.URL, hosts...); err != nil || arrived.Load() == nil {
			t.Errorf("hosts %v: %v", hosts, err)
		}
	}
	if err := get(closed, "http://LOCALHOST:"+port, "localhost"); err != nil {
		t.Errorf("a name: %v", err)
	}
	for name, err := range map[string]error{
		"nothing allowed":         get(closed, srv.URL),
		"another host":            get(closed, srv.URL, "localhost"),
		"another port":            get(closed, srv.URL, "127.0.0.1:1"),
		"its mapped form":         get(closed, "http://[::ffff:127.0.0.1]:"+port, "localhost"),
		"metadata":                get(closed, "http://169.254.169.254/", "169.254.169.254"),
		"the operator forbids it": get(New(Config{NoHosts: true}), srv.URL, "127.0.0.1"),
	} {
		if !errors.Is(err, ErrRefused) {
			t.Errorf("%s: error %v, want a refusal", name, err)
		}
		if arrived.Load() != nil {
			t.Errorf("%s: it arrived", name)
		}
	}
	// At each redirect, whatever spelling leads back inside.
	for _, to := range []string{"http://localhost:" + port + "/", "http://[::ffff:127.0.0.1]:1/", "http://[::1]:" + port + "/", "http://10.255.255.1/", "http://169.254.169.254/"} {
		back.Store(&to)
		if err := get(closed, srv.URL, "127.0.0.1:"+port); !errors.Is(err, ErrRefused) {
			t.Errorf("redirect to %s: error %v, want a refusal", to, err)
		}
	}
	for text, want := range map[string]bool{"10.0.0.1": true, "::ffff:10.0.0.1": true, "fd12::1": true, "::1": true, "100.64.0.1": true,
		"169.254.169.254": false, "::ffff:169.254.169.254": false, "fe80::1": false, "fd00:ec2::254": false, "100.100.100.200": false,
		"0.0.0.0": false, "224.0.0.1": false, "168.63.129.16": false} {
		if got := innerAllowed(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s may be reached by naming it: %v, want %v", text, got, want)
		}
	}
}

// Headers that were dropped at another host do not come back with a redirect to
// the first one: the other host chose where it leads.
func TestDo_DroppedHeadersStayDropped(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	var first *httptest.Server
	other := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		http.Redirect(rw, r, first.URL+"/chosen", http.StatusFound)
	}))
	defer other.Close()
	first = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/chosen" {
			got <- r.Header.Get("X-Api-Key") + r.Header.Get("Authorization")
			return
		}
		http.Redirect(rw, r, other.URL, http.StatusFound)
	}))
	defer first.Close()
	if _, err := local(t).Do(t.Context(), Request{Method: "GET", URL: first.URL, Read: true,
		Header: http.Header{"Authorization": {"Bearer s3cret"}, "X-Api-Key": {"s3cret"}}}); err != nil {
		t.Fatal(err)
	}
	if h := <-got; h != "" {
		t.Errorf("another host brought the credentials to an address of its choice: %q", h)
	}
}

// An answer that never ends is given up in time, and what had come is there.
func TestDo_BoundsTheTime(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			_, _ = rw.Write([]byte("x"))
			_ = http.NewResponseController(rw).Flush()
			select {
			case <-r.Context().Done():
			case <-time.After(5 * time.Millisecond):
			}
		}
	}))
	defer srv.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	resp, err := local(t).Do(ctx, Request{Method: "GET", URL: srv.URL, Read: true})
	if err != nil || !errors.Is(resp.Broken, context.DeadlineExceeded) || len(resp.Body) == 0 || time.Since(began) > 5*time.Second {
		t.Errorf("%d bytes, broken %v, error %v after %s", len(resp.Body), resp.Broken, err, time.Since(began))
	}
}
