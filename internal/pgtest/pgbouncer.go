package pgtest

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/config"
)

// PgBouncer puts a PgBouncer in transaction mode with two server connections in
// front of the database, for the given roles, until t ends. A machine without
// pgbouncer skips the test, or fails it when CI is set.
func (d *DB) PgBouncer(t testing.TB, roles ...string) config.Secret {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program, err = exec.LookPath("/usr/sbin/pgbouncer") // Debian's place, not in everybody's PATH
	}
	if err != nil {
		if os.Getenv("CI") == "" {
			t.Skip(err)
		}
		t.Fatalf("%v; scripts/setup.sh test installs it", err)
	}
	server, err := url.Parse(d.URL.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "pgbouncer") // a short path: it holds a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil { // root's child runs as another user
		t.Fatal(err)
	}
	users := ""
	for _, role := range roles {
		users += fmt.Sprintf("%q \"\"\n", role)
	}
	host, port := server.Query().Get("host"), server.Query().Get("port")
	if host == "" {
		host, port = server.Hostname(), server.Port()
	}
	if port == "" {
		port = "5432"
	}
	conf := fmt.Sprintf(`[databases]
* = host=%s port=%s
[pgbouncer]
pool_mode = transaction
default_pool_size = 2
auth_type = trust
auth_file = %s
unix_socket_dir = %s
listen_port = 6432
logfile = %s
pidfile =
`, host, port, filepath.Join(dir, "users"), dir, filepath.Join(dir, "log"))
	for name, text := range map[string]string{"users": users, "conf": conf} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil { //nolint:gosec // no password in it
			t.Fatal(err)
		}
	}
	var out strings.Builder
	cmd := exec.Command(program, filepath.Join(dir, "conf"))
	cmd.SysProcAttr = asOwnerOf(t, host) // it refuses root
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-ended
	})
	socket := filepath.Join(dir, ".s.PGSQL.6432")
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(socket); err == nil {
			break
		}
		select {
		case <-ended:
			t.Fatalf("pgbouncer ended: %s", out.String())
		default:
		}
		if time.Now().After(deadline) {
			t.Fatal("pgbouncer is not ready after 10 s")
		}
	}
	through := *server
	through.Host, through.User = "", url.User(roles[0])
	through.RawQuery = url.Values{"host": {dir}, "port": {"6432"}}.Encode()
	return config.Secret(through.String())
}
