package deploy

import (
	"context"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
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
	"sigs.k8s.io/yaml"

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
	}, loader.WithProfiles([]string{"observability"}))
	if err != nil {
		t.Fatal(err)
	}
	return project
}

// roles are the services that connect to Postgres.
var roles = []string{"approvals", "console", "runner", "tools", "trigger"}

func TestCompose(t *testing.T) {
	t.Parallel()
	project := compose(t)
	ours := 0
	for name, s := range project.Services {
		mine := strings.HasPrefix(s.Image, "holdfast:")
		seen := slices.Contains(s.Profiles, "observability")
		if s.HealthCheck == nil && name != "migrate" && name != "collector" {
			t.Errorf("%s has no health check", name)
		}
		for _, p := range s.Ports {
			if p.HostIP != "127.0.0.1" {
				t.Errorf("%s opens port %s on %q: only this machine may reach it until somebody decides otherwise", name, p.Published, p.HostIP)
			}
			if name != "edge" && name != "grafana" {
				t.Errorf("%s opens a port; only the edge and Grafana do", name)
			}
		}
		if !mine {
			network := "data"
			if seen {
				network = "doors" // never where NATS asks nobody for anything
				confined(t, s)
			}
			if diff := cmp.Diff([]string{network}, s.NetworksByPriority()); diff != "" {
				t.Errorf("%s is in other networks (-want +got):\n%s", name, diff)
			}
			for _, v := range s.Volumes {
				if _, err := os.Stat(v.Source); v.Type == types.VolumeTypeBind && err != nil {
					t.Errorf("%s mounts what is not there: %v", name, err)
				}
			}
			if tag := s.Image[strings.LastIndex(s.Image, ":")+1:]; !strings.Contains(tag, ".") {
				t.Errorf("%s: the image %s is not pinned to a version", name, s.Image)
			}
			continue
		}
		ours++
		confined(t, s)
		if seen {
			t.Errorf("%s runs with a profile only", name)
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
			if own := secret.Source == name+"-"+secret.Target; !own || secret.Target != "database-url" && secret.Target != "nats-password" {
				t.Errorf("%s sees the secret %s as %s", name, secret.Source, secret.Target)
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

// confined checks what a container of ours, or one that only looks, must have.
func confined(t *testing.T, s types.ServiceConfig) {
	t.Helper()
	if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || !slices.Equal(s.SecurityOpt, []string{"no-new-privileges:true"}) {
		t.Errorf("%s is not confined: read_only %v, cap_drop %v, security_opt %v", s.Name, s.ReadOnly, s.CapDrop, s.SecurityOpt)
	}
}

// Prometheus scrapes the health port of every process of ours, and Grafana shows the
// dashboards and the Prometheus that are there.
func TestCompose_Observability(t *testing.T) {
	t.Parallel()
	var config struct {
		ScrapeConfigs []struct {
			JobName       string `json:"job_name"`
			StaticConfigs []struct {
				Targets []string `json:"targets"`
			} `json:"static_configs"`
		} `json:"scrape_configs"`
		RuleFiles []string          `json:"rule_files"`
		Global    map[string]string `json:"global"`
	}
	readYAML(t, "../../deploy/compose/observability/prometheus.yml", &config)
	var want []string
	for name, s := range compose(t).Services {
		for _, arg := range s.Command {
			if port, health := strings.CutPrefix(arg, "--health-listen=0.0.0.0:"); health {
				want = append(want, name+":"+port)
			}
		}
	}
	slices.Sort(want)
	got := slices.Sorted(slices.Values(config.ScrapeConfigs[0].StaticConfigs[0].Targets))
	if diff := cmp.Diff(want, got); diff != "" || config.ScrapeConfigs[0].JobName != "holdfast" || len(want) != 6 {
		t.Errorf("job %s scrapes (-processes +targets):\n%s", config.ScrapeConfigs[0].JobName, diff)
	}
	var sources struct {
		APIVersion  int `json:"apiVersion"`
		Datasources []struct {
			Name, Type, UID, URL string
			IsDefault            bool `json:"isDefault"`
		} `json:"datasources"`
	}
	readYAML(t, "../../deploy/compose/observability/grafana/datasources.yml", &sources)
	if s := sources.Datasources; len(s) != 1 || s[0].URL != "http://prometheus:9090" {
		t.Errorf("Grafana asks %+v", s)
	}
}

func readYAML(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, into); err != nil {
		t.Fatalf("%s: %v", path, err)
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
	known := map[string]string{}
	users := map[string]string{"migrate": "holdfast"}
	for _, s := range roles {
		users[s] = "holdfast_" + s
	}
	for name, user := range users {
		c, err := pgx.ParseConfig(first[name+"-database-url"])
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		password := name + "-password"
		if name == "migrate" {
			password = "postgres-password"
		}
		if c.User != user || c.Password == "" || c.Password != first[password] || c.Host != "postgres" || c.Database != "holdfast" {
			t.Errorf("the URL of %s does not fit: user %s, host %s, database %s", name, c.User, c.Host, c.Database)
		}
		if other, taken := known[c.Password]; taken {
			t.Errorf("%s and %s share a password", name, other)
		}
		known[c.Password] = name
	}
	for _, s := range roles {
		if line := fmt.Sprintf("%s_password: %q\n", s, first[s+"-nats-password"]); !strings.Contains(first["nats-passwords"], line) {
			t.Errorf("NATS does not know the password of %s", s)
		}
	}
	usersConnect(t, []byte(first["nats-passwords"]), func(service string) string { return first[service+"-nats-password"] })
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
	secrets := t.TempDir()
	for _, s := range roles {
		if err := os.WriteFile(filepath.Join(secrets, s+"-password"), []byte("it's the 'password' of "+s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "bash", "../../deploy/compose/roles.sh")
	cmd.Env = append(os.Environ(), "SECRETS_DIR="+secrets,
		"PGHOST="+conn.Config().Host, "PGPORT="+strconv.Itoa(int(conn.Config().Port)), "POSTGRES_USER="+conn.Config().User, "POSTGRES_DB="+conn.Config().Database)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := pg.Migrate(t.Context(), s.URL(), nil); err != nil { // the base migration, which leaves them alone
		t.Fatal(err)
	}
	for _, s := range roles {
		var verifier string
		if err := conn.QueryRow(t.Context(), `SELECT rolpassword FROM pg_authid WHERE rolname = $1 AND rolcanlogin AND NOT rolsuper`, "holdfast_"+s).Scan(&verifier); err != nil {
			t.Errorf("role of %s: %v", s, err)
			continue
		}
		if !opens(t, verifier, "it's the 'password' of "+s) {
			t.Errorf("the role of %s has another password than its own", s)
		}
	}
}

// opens reports whether password fits what Postgres keeps of it:
// SCRAM-SHA-256$<iterations>:<salt>$<stored key>:<server key>. Source: RFC 5802,
// section 3.
func opens(t *testing.T, verifier, password string) bool {
	t.Helper()
	part := strings.FieldsFunc(verifier, func(r rune) bool { return r == '$' || r == ':' })
	if len(part) != 5 || part[0] != "SCRAM-SHA-256" {
		t.Fatalf("not a SCRAM verifier: %d parts", len(part))
	}
	iterations, err := strconv.Atoi(part[1])
	if err != nil {
		t.Fatal(err)
	}
	salt, err := base64.StdEncoding.DecodeString(part[2])
	if err != nil {
		t.Fatal(err)
	}
	salted, err := pbkdf2.Key(sha256.New, password, salt, iterations, sha256.Size)
	if err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha256.New, salted)
	mac.Write([]byte("Client Key"))
	stored := sha256.Sum256(mac.Sum(nil))
	return base64.StdEncoding.EncodeToString(stored[:]) == part[3]
}
