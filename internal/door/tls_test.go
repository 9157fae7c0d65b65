package door_test

import (
	"context"
	"crypto/tls"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/certtest"
	"github.com/holdfast-run/holdfast/internal/door"
)

// secure is a server with the certificates of dir.
func secure(t *testing.T, c door.Certificates) string {
	t.Helper()
	s := door.NewServer("127.0.0.1:0", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil {
			t.Error("a request in plain text")
		}
	}))
	if err := s.Secure(c); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	ran := make(chan error, 1)
	go func() { ran <- s.Run(context.WithoutCancel(t.Context())) }()
	t.Cleanup(func() {
		if err := s.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
		if err := <-ran; err != nil {
			t.Error(err)
		}
	})
	return "https://" + s.Address()
}

// get asks over a connection of its own; serial is the server's certificate's.
func get(url string, c *tls.Config) (serial string, err error) {
	transport := &http.Transport{TLSClientConfig: c, DisableKeepAlives: true}
	client := http.Client{Transport: transport, Timeout: 30 * time.Second}
	resp, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	return resp.TLS.PeerCertificates[0].SerialNumber.String(), nil
}

// Certificates are read again when they change, and what cannot be used leaves
// those of before.
func TestServer_SpeaksTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca := certtest.New(t)
	cert, key := ca.Issue(t, dir, "door")
	url := secure(t, door.Certificates{CertFile: cert, KeyFile: key})
	trusting := &tls.Config{RootCAs: ca.Pool()}
	first, err := get(url, trusting)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := get(url, nil); err == nil {
		t.Error("an authority that nobody knows is trusted")
	}
	if _, err := get(url, &tls.Config{RootCAs: ca.Pool(), MaxVersion: tls.VersionTLS11}); err == nil {
		t.Error("TLS 1.1 is spoken")
	}
	ca.Issue(t, dir, "door")
	second, err := get(url, trusting)
	if err != nil || second == first {
		t.Errorf("after a new certificate: serial %s, before %s, %v", second, first, err)
	}
	if err := os.WriteFile(cert, []byte("half a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	if kept, err := get(url, trusting); err != nil || kept != second {
		t.Errorf("after a broken file: serial %s, before %s, %v", kept, second, err)
	}
	ca.Issue(t, dir, "door")
	if third, err := get(url, trusting); err != nil || third == second {
		t.Errorf("after the file is whole: serial %s, before %s, %v", third, second, err)
	}
}

func TestServer_AsksClientsForCertificates(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca, stranger := certtest.New(t), certtest.New(t)
	cert, key := ca.Issue(t, dir, "door")
	url := secure(t, door.Certificates{CertFile: cert, KeyFile: key, ClientCAFile: ca.File(t, dir)})
	for name, tc := range map[string]struct {
		from *certtest.Authority
		ok   bool
	}{"its own": {ca, true}, "a stranger's": {stranger, false}, "none": {nil, false}} {
		c := &tls.Config{RootCAs: ca.Pool()}
		if tc.from != nil {
			cert, key := tc.from.Issue(t, t.TempDir(), "client")
			pair, err := tls.LoadX509KeyPair(cert, key)
			if err != nil {
				t.Fatal(err)
			}
			c.Certificates = []tls.Certificate{pair}
		}
		if _, err := get(url, c); (err == nil) != tc.ok {
			t.Errorf("a client with %s certificate: %v", name, err)
		}
	}
}

func TestCertificates_Refused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := certtest.New(t).Issue(t, dir, "door")
	absent := filepath.Join(dir, "absent")
	for name, c := range map[string]door.Certificates{"no file": {CertFile: absent, KeyFile: key}, "no key": {CertFile: cert, KeyFile: cert}, "no authority": {CertFile: cert, KeyFile: key, ClientCAFile: key}} {
		if err := door.NewServer("127.0.0.1:0", nil).Secure(c); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	for name, c := range map[string]door.Certificates{"a certificate alone": {CertFile: cert}, "authorities alone": {ClientCAFile: cert}} {
		if c.Validate() == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
