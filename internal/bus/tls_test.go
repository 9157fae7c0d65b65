package bus_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nkeys"

	"github.com/holdfast-run/holdfast/internal/bus"
	"github.com/holdfast-run/holdfast/internal/certtest"
	"github.com/holdfast-run/holdfast/internal/config"
	"github.com/holdfast-run/holdfast/internal/natsdev"
)

// A server that asks for certificates lets in who shows one from its authority, and
// is let in by who trusts its own; a nkey says who it is.
func TestCredentials_MutualTLSAndNKeys(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca, stranger := certtest.New(t), certtest.New(t)
	cert, key := ca.Issue(t, dir, "nats")
	user, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, err := user.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := user.Seed()
	if err != nil {
		t.Fatal(err)
	}
	seedFile := filepath.Join(dir, "seed")
	write(t, seedFile, string(seed))
	conf := filepath.Join(dir, "nats.conf")
	write(t, conf, fmt.Sprintf("tls {cert_file: %q, key_file: %q, ca_file: %q, verify: true}\nauthorization {users: [{nkey: %q}]}\n", cert, key, ca.File(t, dir), public))
	server, err := natsdev.Start(t.Context(), natsdev.Config{Dir: filepath.Join(dir, "data"), ConfigFile: conf})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	url := config.Secret(strings.Replace(server.URL().Reveal(), "127.0.0.1", "localhost", 1))
	clientCert, clientKey := ca.Issue(t, dir, "client")
	otherCert, otherKey := stranger.Issue(t, dir, "stranger")
	otherDir := t.TempDir()
	good := bus.Credentials{NKeyFile: seedFile, CAFile: filepath.Join(dir, "authority.pem"), CertFile: clientCert, KeyFile: clientKey}
	for name, tc := range map[string]struct {
		change func(*bus.Credentials)
		ok     bool
	}{
		"all is right":            {func(*bus.Credentials) {}, true},
		"no certificate":          {func(c *bus.Credentials) { c.CertFile, c.KeyFile = "", "" }, false},
		"a stranger":              {func(c *bus.Credentials) { c.CertFile, c.KeyFile = otherCert, otherKey }, false},
		"a server not to trust":   {func(c *bus.Credentials) { c.CAFile = stranger.File(t, otherDir) }, false},
		"nobody, certified":       {func(c *bus.Credentials) { c.NKeyFile = "" }, false},
		"no authority, no client": {func(c *bus.Credentials) { *c = bus.Credentials{NKeyFile: seedFile} }, false},
	} {
		c := good
		tc.change(&c)
		b, err := bus.Connect(t.Context(), bus.Config{URL: url, Credentials: c})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if tc.ok {
			err = b.Provision(t.Context(), nil) // waits for the connection
		} else if err = b.Ready(t.Context()); err != nil && !errors.Is(err, bus.ErrDisconnected) {
			t.Errorf("%s: %v", name, err)
		}
		if (err == nil) != tc.ok {
			t.Errorf("%s: %v", name, err)
		}
		b.Close()
	}
}
