package deploy

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-run/holdfast/internal/bus"
	"github.com/holdfast-run/holdfast/internal/natsdev"
)

//go:generate go test -run ^TestNATS_Generated$ . -args -update
var update = flag.Bool("update", false, "rewrite generated files")

const generated = "# Generated from what each service sends and reads (internal/bus/permissions.go) by\n# \"go generate ./test/deploy\".\n"

// natsConfig is for nats-server: a user for each service.
func natsConfig() string {
	var b strings.Builder
	b.WriteString(generated + `#
# Users of NATS, one for each service, which may do what it needs and no more. The
# passwords are in passwords.conf beside this file, one line for each user:
#   trigger_password: "..."
include ./passwords.conf

authorization {
  users: [
`)
	for _, service := range bus.Services() {
		p := bus.PermissionsOf(service)
		fmt.Fprintf(&b, "    {\n      user: %s, password: $%s_password\n      permissions: {\n", service, service)
		list(&b, "publish", p.Publish)
		list(&b, "subscribe", p.Subscribe)
		b.WriteString("      }\n    }\n")
	}
	b.WriteString("  ]\n}\n")
	return b.String()
}

func list(b *strings.Builder, name string, subjects []string) {
	fmt.Fprintf(b, "        %s: [\n", name)
	for _, s := range subjects {
		fmt.Fprintf(b, "          %q\n", s)
	}
	b.WriteString("        ]\n")
}

// natsValues are for NATS' own chart: the same users, with passwords from a Secret.
func natsValues(t *testing.T) string {
	t.Helper()
	env, users := map[string]any{}, []any{}
	for _, service := range bus.Services() {
		name := strings.ToUpper(service) + "_PASSWORD"
		env[name] = map[string]any{"valueFrom": map[string]any{"secretKeyRef": map[string]any{"name": "holdfast-nats", "key": service}}}
		p := bus.PermissionsOf(service)
		users = append(users, map[string]any{
			"user": service, "password": "<< $" + name + " >>",
			"permissions": map[string]any{"publish": p.Publish, "subscribe": p.Subscribe},
		})
	}
	text, err := yaml.Marshal(map[string]any{
		"container": map[string]any{"env": env},
		"config":    map[string]any{"merge": map[string]any{"authorization": map[string]any{"users": users}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return generated + "#\n# Users for NATS' own chart, beside nats-values.yaml. The Secret holdfast-nats in NATS'\n# namespace has a password for each: begin it with a letter.\n" + string(text)
}

func TestNATS_Generated(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"deploy/nats/holdfast.conf":                       natsConfig(),
		"deploy/k8s/overlays/dev/nats.conf":               natsConfig(),
		"deploy/k8s/overlays/prod/nats-users-values.yaml": natsValues(t),
	} {
		path = filepath.Join(root, path)
		if *update {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%s is stale; go generate ./test/deploy (-want +got):\n%s", path, diff)
		}
	}
}

// usersConnect starts NATS with the users and their passwords, as they are mounted
// beside each other, and wants each service let in by its own and nobody without.
func usersConnect(t *testing.T, passwords []byte, of func(service string) string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string][]byte{"holdfast.conf": []byte(natsConfig()), "passwords.conf": passwords} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	server, err := natsdev.Start(t.Context(), natsdev.Config{Dir: filepath.Join(dir, "data"), ConfigFile: filepath.Join(dir, "holdfast.conf")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	for _, service := range bus.Services() {
		nc, err := nats.Connect(server.URL().Reveal(), nats.UserInfo(service, of(service)))
		if err != nil {
			t.Errorf("%s is refused: %v", service, err)
			continue
		}
		nc.Close()
	}
	if nc, err := nats.Connect(server.URL().Reveal()); err == nil {
		nc.Close()
		t.Error("NATS lets in who shows no password")
	}
}

// The secrets of the overlay dev open its NATS.
func TestNATS_Dev(t *testing.T) {
	t.Parallel()
	o := decodeAll(t, kustomize(t, filepath.Join(manifests(t), "overlays/dev")))
	if o.configMaps["nats"].Data["holdfast.conf"] != natsConfig() {
		t.Error("NATS has other users")
	}
	usersConnect(t, o.secrets["nats-passwords"].Data["passwords.conf"], func(service string) string { return string(o.secrets["holdfast-nats"].Data[service]) })
}
