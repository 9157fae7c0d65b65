package main

import (
	"testing"

	"github.com/alecthomas/kong"
)

// The operator's word about allowHosts reaches what requests go through, and the
// default is what the help says.
func TestEgress_AllowHosts(t *testing.T) {
	t.Parallel()
	for flag, forbidden := range map[string]bool{"--no-egress-allow-hosts": true, "--egress-allow-hosts": false, "--health-listen=127.0.0.1:1": false} {
		var cli CLI
		parser, err := newParser(&cli, kong.Exit(func(int) {}))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parser.Parse([]string{"serve", "tools", "--database-url", "postgres://db/x", flag}); err != nil {
			t.Fatal(err)
		}
		c, err := cli.Serve.egress()
		if err != nil || c.NoHosts != forbidden {
			t.Errorf("%s: definitions may name no hosts: %v, %v; want %v", flag, c.NoHosts, err, forbidden)
		}
	}
}
