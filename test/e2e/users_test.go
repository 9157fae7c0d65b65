package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/holdfast-run/holdfast/internal/bus"
)

// natsUsers is a folder with the users of deploy/nats/holdfast.conf, with each one's
// password in a file of its own, and with "outside", who is a program of somebody
// else: it may ask for runs, and look.
func natsUsers(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../deploy/nats/holdfast.conf")
	if err != nil {
		t.Fatal(err)
	}
	const begin = "  users: [\n"
	conf := strings.Replace(string(text), begin, begin+`    {user: outside, password: outside, permissions: {
      publish: ["hf.in.*", "$JS.API.STREAM.INFO.EVENTS"], subscribe: ["_INBOX.>"]}}
`, 1)
	files := map[string]string{"holdfast.conf": conf, "passwords.conf": ""}
	for _, s := range bus.Services() {
		password := "password-of-the-service-" + s
		files[s] = password
		files["passwords.conf"] += fmt.Sprintf("%s_password: %q\n", s, password)
	}
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// nats connects as another program does.
func (d *deployment) nats(t *testing.T) *nats.Conn {
	t.Helper()
	var opts []nats.Option
	if d.users != "" {
		opts = append(opts, nats.UserInfo("outside", "outside"))
	}
	nc, err := nats.Connect(d.natsURL, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// noViolation wants no service to have tried what its user may not do.
func noViolation(t *testing.T, log []byte) {
	t.Helper()
	for line := range strings.Lines(string(log)) {
		if strings.Contains(line, "Violation") {
			t.Errorf("NATS refused a service something that it needs: %s", strings.TrimSpace(line))
		}
	}
}
