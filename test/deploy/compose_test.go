package deploy

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/internal/pgdev"
)

func compose(t *testing.T) *types.Project {
	t.Helper()
	const file = "../../docker-compose.yml"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	project, err := loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir:  "../..",
		ConfigFiles: []types.ConfigFile{{Filename: file, Content: text}},
		Environment: types.Mapping{},
	})
	if err != nil {
		t.Fatal(err)
	}
	return project
}

func TestCompose(t *testing.T) {
	t.Parallel()
	project := compose(t)
	ours := 0
	for name, s := range project.Services {
		mine := strings.HasPrefix(s.Image, "holdfast:")
		if s.HealthCheck == nil && name != "migrate" {
			t.Errorf("%s has no health check", name)
		}
		for _, p := range s.Ports {
			if p.HostIP != "127.0.0.1" {
				t.Errorf("%s opens port %s on %q: only this machine may reach it until somebody decides otherwise", name, p.Published, p.HostIP)
			}
			if name != "edge" {
				t.Errorf("%s opens a port; only the edge does", name)
			}
		}
		if !mine {
			if diff := cmp.Diff([]string{"data"}, s.NetworksByPriority()); diff != "" {
				t.Errorf("%s is in other networks (-want +got):\n%s", name, diff)
			}
			if tag := s.Image[strings.LastIndex(s.Image, ":")+1:]; !strings.Contains(tag, ".") {
				t.Errorf("%s: the image %s is not pinned to a version", name, s.Image)
			}
			continue
		}
		ours++
		if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || !slices.Equal(s.SecurityOpt, []string{"no-new-privileges:true"}) {
			t.Errorf("%s is not confined: read_only %v, cap_drop %v, security_opt %v", name, s.ReadOnly, s.CapDrop, s.SecurityOpt)
		}
		if name == "migrate" {
			continue
		}
		grace := s.Environment["HOLDFAST_SHUTDOWN_GRACE"]
		if grace == nil {
			t.Errorf("%s does not say how long it may take to stop", name)
			continue
		}
		d, err := time.ParseDuration(*grace)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if s.StopGracePeriod == nil || time.Duration(*s.StopGracePeriod) <= d {
			t.Errorf("%s is killed after %v, before its own %v are over", name, s.StopGracePeriod, d)
		}
		for _, secret := range s.Secrets {
			if secret.Source != "services-database-url" {
				t.Errorf("%s sees the secret %s", name, secret.Source)
			}
		}
		if name == "edge" {
			if diff := cmp.Diff([]string{"doors"}, s.NetworksByPriority()); diff != "" || len(s.Secrets) > 0 {
				t.Errorf("the edge reaches more than the doors: %v, secrets %v", s.NetworksByPriority(), s.Secrets)
			}
			continue
		}
		if got := s.DependsOn["migrate"].Condition; got != types.ServiceConditionCompletedSuccessfully {
			t.Errorf("%s starts when migrate is %q", name, got)
		}
	}
	if ours != 7 {
		t.Errorf("%d containers of ours, want the five services, edge and migrate", ours)
	}
	if !project.Networks["data"].Internal {
		t.Error("the network of Postgres and NATS is not internal")
	}
}

// TestCompose_Secrets makes the secrets twice with the script and wants every
// file that the compose file names, unchanged by the second time.
func TestCompose_Secrets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script := filepath.Join(dir, "deploy", "compose", "make-secrets.sh")
	text, err := os.ReadFile("../../deploy/compose/make-secrets.sh")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(script), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(script, text, 0o755); err != nil {
		t.Fatal(err)
	}
	read := func() map[string]string {
		if out, err := exec.CommandContext(t.Context(), "sh", script).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		all := map[string]string{}
		for name, s := range compose(t).Secrets {
			b, err := os.ReadFile(filepath.Join(dir, "secrets", filepath.Base(s.File)))
			if err != nil {
				t.Fatalf("secret %s: %v", name, err)
			}
			all[name] = string(b)
		}
		return all
	}
	first := read()
	if diff := cmp.Diff(first, read()); diff != "" {
		t.Errorf("the second time changed secrets (-first +second):\n%s", diff)
	}
	if token := first["admin-token"]; !strings.HasPrefix(token, "hf_") || len(token) < 40 {
		t.Errorf("the admin token %q would be refused", token)
	}
	for url, password := range map[string]string{"migrate-database-url": "postgres-password", "services-database-url": "services-password"} {
		c, err := pgx.ParseConfig(first[url])
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		if c.Password != first[password] || c.Host != "postgres" || c.Database != "holdfast" {
			t.Errorf("%s does not fit: host %s, database %s", url, c.Host, c.Database)
		}
	}
	if first["postgres-password"] == first["services-password"] {
		t.Error("the services have the owner's password")
	}
	info, err := os.Stat(filepath.Join(dir, "secrets"))
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o700 {
		t.Errorf("the folder of the secrets has mode %v", info.Mode().Perm())
	}
}

// TestCompose_Roles runs the script that makes the roles on a server of its own,
// since roles belong to a whole cluster.
func TestCompose_Roles(t *testing.T) {
	t.Parallel()
	s, err := pgdev.Start(t.Context(), pgdev.Config{Dir: t.TempDir(), Throwaway: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 20*time.Second)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	conn, err := pgx.Connect(t.Context(), s.URL().Reveal())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("it's a 'password'"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "bash", "../../deploy/compose/roles.sh")
	cmd.Env = append(os.Environ(), "SERVICES_PASSWORD_FILE="+password,
		"PGHOST="+conn.Config().Host, "PGPORT="+strconv.Itoa(int(conn.Config().Port)), "POSTGRES_USER="+conn.Config().User, "POSTGRES_DB="+conn.Config().Database)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := pg.Migrate(t.Context(), s.URL(), nil); err != nil { // the base migration, which leaves them alone
		t.Fatal(err)
	}
	rows, err := conn.Query(t.Context(), `SELECT rolname FROM pg_authid WHERE rolname LIKE 'holdfast\_%' AND rolpassword LIKE 'SCRAM-SHA-256$%' AND rolcanlogin AND NOT rolsuper ORDER BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"holdfast_approvals", "holdfast_console", "holdfast_runner", "holdfast_tools", "holdfast_trigger"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("roles with a password (-want +got):\n%s", diff)
	}
}
