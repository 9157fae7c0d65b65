package e2e

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/bus"
	"github.com/holdfast-run/holdfast/internal/bustest"
	"github.com/holdfast-run/holdfast/internal/config"
	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/internal/pgtest"
	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// deployment is all services as processes of their own behind the edge.
type deployment struct {
	t        *testing.T // lives as long as the processes
	out      *outside
	db       *pgxpool.Pool // for reading views
	env      []string
	natsURL  string
	users    string // the folder of NATS' users and their passwords; "" is a NATS that asks nobody
	edge     string
	token    string // of the administrator
	secret   []byte // of the webhook
	plans    map[string]plan
	mu       sync.Mutex
	live     map[string]*process
	tokens   map[string]string // of other namespaces
	admin    *client.Client
	operator *client.Client
	approver *client.Client
}

// services are the processes that listen for requests behind the edge.
var services = []string{"trigger", "tools", "approvals", "console"}

// deploy starts everything but the runners, of which there are none yet, and
// stores the definitions. The database is a clone that is migrated already;
// migrate still runs, for the first token.
func deploy(t *testing.T, database config.Secret) *deployment {
	t.Helper()
	return deployOn(t, servers{database: database})
}

// servers are what a deployment stands on.
type servers struct {
	database config.Secret // for migrations, and for the services when there is no pooler
	pooler   config.Secret // where the services find the database; "" is there
	nats     string        // "" is a process of the deployment
	anybody  bool          // NATS asks nobody who they are, and each service sets up all streams
}

// deployPooled is deploy with PgBouncer in transaction mode between the services and
// Postgres. What each statement leaves in a session, another service's next one would meet.
func deployPooled(t *testing.T) *deployment {
	t.Helper()
	db := pgtest.New(t)
	through := db.PgBouncer(t, "holdfast_trigger", "holdfast_runner", "holdfast_tools", "holdfast_approvals", "holdfast_console")
	return deployOn(t, servers{database: db.URL, pooler: through})
}

// deployOn is deploy on some servers that are there.
func deployOn(t *testing.T, on servers) *deployment {
	t.Helper()
	secret := make([]byte, 24)
	if _, err := rand.Read(secret); err != nil {
		t.Fatal(err)
	}
	d := &deployment{
		t: t, out: newOutside(t), token: authn.NewToken(), secret: secret,
		plans: map[string]plan{}, live: map[string]*process{}, tokens: map[string]string{},
	}
	nats := free(t)
	if d.natsURL = on.nats; on.nats == "" {
		d.natsURL = "nats://" + nats
	}
	d.env = append(baseEnv(),
		"HOLDFAST_DATABASE_URL="+cmp.Or(on.pooler, on.database).Reveal(), "HOLDFAST_NATS_URL="+d.natsURL, "HOLDFAST_EGRESS_ALLOW=127.0.0.0/8",
		"E2E_KEY=e2e-canary-41d7b09a", "E2E_WEBHOOK_SECRET=whsec_"+base64.StdEncoding.EncodeToString(secret),
	)
	if on.nats == "" {
		args := []string{"--nats-listen", nats, "--nats-dir", filepath.Join(t.TempDir(), "nats")}
		if !on.anybody {
			d.users = natsUsers(t)
			args = append(args, "--nats-config", filepath.Join(d.users, "holdfast.conf"))
		}
		d.plan("nats", "nats", args...)
	} else {
		d.env = append(d.env, "HOLDFAST_NATS_REPLICAS="+strconv.Itoa(bustest.Nodes))
	}
	front := free(t)
	d.edge = "http://" + front
	edge := []string{"--listen", front}
	for _, s := range services {
		addr := free(t)
		edge = append(edge, "--edge-"+s+"-url", "http://"+addr)
		args := []string{"--listen", addr}
		if s == "tools" {
			args = append(args, "--tools-public-url", d.edge)
		}
		d.plan(s, s, args...)
	}
	d.plan("edge", "edge", edge...)
	if on.nats == "" {
		d.start("nats")
	}
	if out, bad, code := command(t, append(slices.Clone(d.env), "HOLDFAST_ADMIN_TOKEN="+d.token, "HOLDFAST_DATABASE_URL="+on.database.Reveal()), "migrate"); code != 0 {
		t.Fatalf("migrate: exit %d\n%s%s", code, out, bad)
	}
	d.start(append([]string{"edge"}, services...)...)

	pool, err := pg.Open(t.Context(), pg.Config{URL: on.database, MaxConns: 4, AppName: "e2e"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	t.Cleanup(func() { checkJournals(t, pool) }) // when the runners are gone
	d.db = pool
	d.admin = d.client(t, d.token)
	d.operator = d.client(t, d.newToken(t, "ops", "operator"))
	d.approver = d.client(t, d.newToken(t, "ann", "approver"))
	d.apply(t, d.admin, "first edition")
	return d
}

func (d *deployment) plan(name, service string, args ...string) {
	health := free(d.t)
	env := slices.Clone(d.env)
	if d.users != "" && slices.Contains(bus.Services(), service) {
		env = append(env, "HOLDFAST_NATS_USER="+service, "HOLDFAST_NATS_PASSWORD_FILE="+filepath.Join(d.users, service), "HOLDFAST_NATS_PROVISION=own")
	}
	d.plans[name] = plan{
		name: name, env: env, health: health,
		args: append([]string{"serve", service, "--health-listen", health}, args...),
	}
}

// runners adds runner processes, "runner-1" and so on.
func (d *deployment) runners(n int) *deployment {
	d.t.Helper()
	var names []string
	for i := range n {
		name := fmt.Sprintf("runner-%d", i+1)
		d.plan(name, "runner")
		names = append(names, name)
	}
	d.start(names...)
	return d
}

// start runs planned processes side by side and returns when all are ready.
func (d *deployment) start(names ...string) {
	d.t.Helper()
	for _, name := range names {
		d.run(name)
	}
	for _, name := range names {
		d.process(name).ready(d.t)
	}
}

// armed runs a planned process that dies at a failpoint.
func (d *deployment) armed(name, failpoint string) *process {
	d.t.Helper()
	p := d.run(name, "HOLDFAST_FAILPOINTS="+failpoint)
	p.ready(d.t)
	return p
}

func (d *deployment) run(name string, env ...string) *process {
	d.t.Helper()
	p := spawn(d.t, d.plans[name], env...)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.live[name] = p
	return p
}

func (d *deployment) process(name string) *process {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.live[name]
}

func (d *deployment) client(t *testing.T, token string) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{Server: d.edge, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// once is a client that does not repeat what failed.
func (d *deployment) once(t *testing.T) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{Server: d.edge, Token: d.token, Attempts: 1})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (d *deployment) newToken(t *testing.T, name, role string) string {
	t.Helper()
	tok, err := d.admin.CreateToken(t.Context(), client.TokenRequest{Name: name, Role: role})
	if err != nil {
		t.Fatal(err)
	}
	return tok.Secret
}

// cli runs a command of an operator against the deployment.
func (d *deployment) cli(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	return command(t, append(baseEnv(), "HOLDFAST_SERVER="+d.edge, "HOLDFAST_TOKEN="+d.token), args...)
}

// count reads one number from the views.
func (d *deployment) count(t *testing.T, sql string, args ...any) int {
	t.Helper()
	var n int
	err := d.db.QueryRow(t.Context(), sql, args...).Scan(&n)
	for tries := 0; err != nil && tries < 5; tries++ { // a test that cuts lines cuts those of this pool too
		err = d.db.QueryRow(t.Context(), sql, args...).Scan(&n)
	}
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

// request starts a job once, however often it is sent.
func (j job) request() client.StartRequest {
	return client.StartRequest{Agent: "clerk", Input: j.input(), IdempotencyKey: j.Job}
}

// startJob starts a job and returns its run.
func (d *deployment) startJob(t *testing.T, j job) events.RunID {
	t.Helper()
	s, err := d.operator.Start(t.Context(), j.request())
	if err != nil {
		t.Fatalf("start %s: %v", j.Job, err)
	}
	return s.RunID
}

// runOf waits until a run is in a status and returns it. An end that is another
// fails at once.
func (d *deployment) runOf(t *testing.T, id events.RunID, status string) client.Run {
	t.Helper()
	var r client.Run
	until(t, fmt.Sprintf("run %s to be %s", id, status), func() bool {
		var err error
		if r, err = d.operator.Run(t.Context(), id); err != nil {
			t.Fatalf("run %s: %v", id, err)
		}
		if r.Status != status && (events.Ended(r.Status) || r.Status == events.StatusAttention) {
			t.Fatalf("run %s is %s, want %s: %+v", id, r.Status, status, r.Error)
		}
		return r.Status == status
	})
	return r
}

// approval waits for the one open question of a run.
func (d *deployment) approval(t *testing.T, id events.RunID, kind string) client.Approval {
	t.Helper()
	var found []client.Approval
	until(t, fmt.Sprintf("a question of run %s", id), func() bool {
		p, err := d.approver.Approvals(t.Context(), client.ApprovalFilter{Run: id, Kind: kind}, client.PageRequest{})
		if err != nil {
			t.Fatal(err)
		}
		found = p.Items
		return len(found) > 0
	})
	if len(found) != 1 {
		t.Fatalf("%d open questions of run %s, want 1", len(found), id)
	}
	return found[0]
}

// finished waits for the end of a job and checks what must hold for each: it is
// one run that completed without a failed call, its journal has no gap, and the
// model was asked once per answer, but for calls that died with their process.
func (d *deployment) finished(t *testing.T, id events.RunID, j job, lost int) []events.RunEvent {
	t.Helper()
	r := d.runOf(t, id, events.StatusCompleted)
	var said string
	if err := json.Unmarshal(r.Output, &said); err != nil || !strings.HasPrefix(said, j.Job+" is done, 0 calls failed") {
		t.Errorf("output of %s: %s", j.Job, r.Output)
	}
	if n := d.count(t, `SELECT count(*) FROM runner.v_runs WHERE input->>'job' = $1`, j.Job); n != 1 {
		t.Errorf("%d runs of %s, want 1", n, j.Job)
	}
	journal := d.journal(t, id)
	answers := 0
	for i, e := range journal {
		if e.Seq != int64(i+1) {
			t.Fatalf("journal of %s: row %d has number %d", j.Job, i+1, e.Seq)
		}
		if e.Kind == events.FactModelAnswered {
			answers++
		}
	}
	if want := len(j.Do) + 1; answers != want {
		t.Errorf("%d answers are recorded for %s, want %d", answers, j.Job, want)
	}
	if got := d.out.model.Count(string(id)).Requests; got != answers+lost {
		t.Errorf("the model was asked %d times for %s, want %d answers and %d lost calls", got, j.Job, answers, lost)
	}
	for _, act := range j.Do {
		if act != "read" {
			if n := d.out.effects(act, j.Job); n != 1 {
				t.Errorf("%s took effect %d times for %s, want once", act, n, j.Job)
			}
		}
	}
	return journal
}

func (d *deployment) journal(t *testing.T, id events.RunID) []events.RunEvent {
	t.Helper()
	var all []events.RunEvent
	for next := (client.PageRequest{Limit: 500}); ; {
		p, err := d.operator.Journal(t.Context(), id, next)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p.Items...)
		if next.Cursor = p.NextCursor; next.Cursor == "" {
			return all
		}
	}
}

// inNamespace makes the first token of another namespace and returns its client.
func (d *deployment) inNamespace(t *testing.T, namespace string) *client.Client {
	t.Helper()
	token := authn.NewToken()
	env := append(slices.Clone(d.env), "HOLDFAST_ADMIN_TOKEN="+token, "HOLDFAST_ADMIN_NAMESPACE="+namespace)
	if out, bad, code := command(t, env, "migrate"); code != 0 {
		t.Fatalf("migrate: exit %d\n%s%s", code, out, bad)
	}
	d.mu.Lock()
	d.tokens[namespace] = token
	d.mu.Unlock()
	return d.client(t, token)
}

// fresh is a database of the test, on the server that all share.
func fresh(t *testing.T) config.Secret {
	t.Helper()
	return pgtest.New(t).URL
}
