package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-run/holdfast/internal/lab"
	"github.com/holdfast-run/holdfast/internal/pgdev"
	"github.com/holdfast-run/holdfast/internal/stdwebhooks"
	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// webhookSecret signs deliveries; it guards nothing.
const webhookSecret = "whsec_Y2hhb3MtY2hhb3MtY2hhb3MtY2hhb3M="

// rig is one deployment that is broken, and the world around it.
type rig struct {
	*world
	dir      string
	database *pgdev.Server
	services *lab.Services
	sup      *lab.Supervisor
	admin    *client.Client
	operator *client.Client
	approver *client.Client
	hooks    *http.Client
	views    *pgxpool.Pool
	clock    *pgxpool.Pool // may let time pass for a row
	toPG     *line         // between the services and Postgres, and NATS
	toNATS   *line

	people sync.WaitGroup
	leave  context.CancelFunc
	every  time.Duration // between two starts of a load

	mu      sync.Mutex
	doubts  int             // put before a person, who settled them
	decided map[string]bool // approvals that were answered
}

// rigConfig says how many processes of a role run; absent means one.
type rigConfig struct {
	binary   string
	replicas map[string]int
	change   func(*lab.Services) // edits the plan; may be nil
}

// openRig starts everything below dir. What it started is ended by close.
func openRig(ctx context.Context, dir string, c rigConfig) (r *rig, err error) {
	r = &rig{dir: dir, every: loadEvery, decided: map[string]bool{}, hooks: &http.Client{Timeout: 10 * time.Second}}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	logs := filepath.Join(dir, "logs")
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return r, err
	}
	if err := os.Chmod(dir, 0o711); err != nil { // the database's user passes through
		return r, err
	}
	if r.world, err = openWorld(dir); err != nil {
		return r, err
	}
	if r.database, err = pgdev.Start(ctx, pgdev.Config{Dir: filepath.Join(dir, "postgres")}); err != nil {
		return r, err
	}
	var url string
	if r.toPG, url, err = postgresLine(r.database.URL().Reveal()); err != nil {
		return r, err
	}
	r.sup = lab.NewSupervisor(c.binary, logs)
	if r.services, err = lab.NewServices(lab.ServicesConfig{
		Binary: c.binary, Database: r.database.URL(), Dir: dir, Replicas: c.replicas,
		Env: []string{"HOLDFAST_EGRESS_ALLOW=127.0.0.0/8", "CHAOS_KEY=scripted", "CHAOS_SECRET=" + webhookSecret},
	}); err != nil {
		return r, err
	}
	if r.toNATS, err = newLine("tcp", r.services.NATS); err != nil {
		return r, err
	}
	for _, p := range r.services.Programs {
		r.services.Change(p.Name, func(p *lab.Program) {
			p.Failpoints = r.pointsFile(p.Name)
			if p.Role != "nats" {
				p.Env = append(p.Env, "HOLDFAST_DATABASE_URL="+url, "HOLDFAST_NATS_URL=nats://"+r.toNATS.addr)
			}
		})
	}
	if c.change != nil {
		c.change(r.services)
	}
	if err := r.services.Start(ctx, r.sup); err != nil {
		return r, err
	}
	if err := r.openViews(ctx); err != nil {
		return r, err
	}
	return r, r.openDoors(ctx)
}

// openViews reads the views as the console does, past the lines that are cut, and lets
// time pass as who may write the approvals' rows.
func (r *rig) openViews(ctx context.Context) error {
	for role, pool := range map[string]**pgxpool.Pool{"holdfast_console": &r.views, "holdfast_approvals": &r.clock} {
		c, err := pgxpool.ParseConfig(r.database.URL().Reveal())
		if err != nil {
			return err
		}
		c.ConnConfig.User, c.MaxConns = role, 4
		if *pool, err = pgxpool.NewWithConfig(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

func (r *rig) openDoors(ctx context.Context) error {
	open := func(token string) (*client.Client, error) {
		return client.New(client.Config{Server: r.services.Edge, Token: token, Attempts: 2})
	}
	var err error
	if r.admin, err = open(r.services.Token); err != nil {
		return err
	}
	for role, to := range map[string]**client.Client{"operator": &r.operator, "approver": &r.approver} {
		t, err := r.admin.CreateToken(ctx, client.TokenRequest{Name: "chaos-" + role, Role: role})
		if err != nil {
			return err
		}
		if *to, err = open(t.Secret); err != nil {
			return err
		}
	}
	if _, err := r.admin.Apply(ctx, []client.Document{{File: "chaos.yaml", Text: r.documents()}}); err != nil {
		return fmt.Errorf("apply the definitions: %w", err)
	}
	away, leave := context.WithCancel(context.WithoutCancel(ctx))
	r.leave = leave
	r.people.Go(func() { r.decide(away) })
	return nil
}

func (r *rig) close() {
	if r.leave != nil {
		r.leave()
		r.people.Wait()
	}
	for _, pool := range []*pgxpool.Pool{r.views, r.clock} {
		if pool != nil {
			pool.Close()
		}
	}
	if r.sup != nil {
		r.sup.Close(5*time.Second, lab.Roles)
	}
	for _, l := range []*line{r.toPG, r.toNATS} {
		if l != nil {
			l.close()
		}
	}
	if r.database != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = r.database.Stop(ctx)
	}
	if r.world != nil {
		r.world.close()
	}
}

// decide is the person: says yes to every action, twice, and settles a doubt after a
// look at the other side. It tries again whatever fails.
func (r *rig) decide(ctx context.Context) {
	for ctx.Err() == nil {
		if page, err := r.approver.Approvals(ctx, client.ApprovalFilter{}, client.PageRequest{Limit: 200}); err == nil {
			for _, a := range page.Items {
				r.decideOne(ctx, a)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (r *rig) decideOne(ctx context.Context, a client.Approval) {
	var args struct{ Night, Shop, Product string }
	if json.Unmarshal(a.Args, &args) != nil {
		return
	}
	if args.Product == "ship" && a.Kind != events.ApprovalDoubt && !r.reminds(ctx, string(a.ApprovalID)) {
		return
	}
	d := client.Decision{Decision: "approve", Digest: a.Digest}
	if a.Kind == events.ApprovalDoubt {
		d = client.Decision{Decision: "not_happened", Comment: "looked it up", Digest: a.Digest}
		if r.effects(args.Night+"/"+args.Shop+"/"+args.Product) > 0 {
			d.Decision = "happened"
		}
	}
	var both sync.WaitGroup
	for range 2 { // people click twice
		both.Go(func() { _, _ = r.approver.Decide(ctx, a.ApprovalID, d) })
	}
	both.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if id := string(a.ApprovalID); !r.decided[id] {
		if r.decided[id] = true; a.Kind == events.ApprovalDoubt {
			r.doubts++
		}
	}
}

const hoursPass = `
UPDATE approvals.requests SET remind_at = CASE WHEN remind_at > clock_timestamp() THEN clock_timestamp() ELSE remind_at END,
       escalate_at = CASE WHEN escalate_at > clock_timestamp() THEN clock_timestamp() ELSE escalate_at END
WHERE approval_id = $1 AND state = 'pending'`

// reminds lets the hours pass after which people are told of an approval again, and
// reports whether both has happened, each once.
func (r *rig) reminds(ctx context.Context, approval string) bool {
	if r.wasTold(approval, "remind-1") && r.wasTold(approval, "escalate-1") {
		return true
	}
	_, _ = r.clock.Exec(ctx, hoursPass, approval) // tried again whatever fails
	return false
}

func (r *rig) doubtsSaid() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.doubts
}

// patiently repeats do until it succeeds, is refused for good, or ctx ends.
func patiently(ctx context.Context, what string, do func() error) error {
	for {
		err := do()
		if err == nil {
			return nil
		}
		if status := client.StatusOf(err); status >= 400 && status < 500 && status != http.StatusTooManyRequests && status != http.StatusRequestTimeout {
			return fmt.Errorf("%s: %w", what, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: not answered in time: %w", what, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// deliver posts a signed webhook until it is accepted. The same id is one delivery.
func (r *rig) deliver(ctx context.Context, hook, id string, body json.RawMessage) (run events.RunID, err error) {
	key, err := stdwebhooks.ParseKey(webhookSecret)
	if err != nil {
		return "", err
	}
	err = patiently(ctx, "deliver "+id, func() error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.services.Edge+"/hooks/"+hook, bytes.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		if err := stdwebhooks.Sign(req.Header, []stdwebhooks.Key{key}, id, time.Now(), body); err != nil {
			return err
		}
		resp, err := r.hooks.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		var s client.Started
		if resp.StatusCode/100 != 2 {
			return fmt.Errorf("answered %s", resp.Status)
		}
		if err := json.NewDecoder(resp.Body).Decode(&s); err != nil {
			return err
		}
		run = s.RunID
		return nil
	})
	return run, err
}

// start starts a run by the API; the same key is the same run.
func (r *rig) start(ctx context.Context, s client.StartRequest) (run events.RunID, err error) {
	err = patiently(ctx, "start "+s.IdempotencyKey, func() error {
		started, err := r.operator.Start(ctx, s)
		run = started.RunID
		return err
	})
	return run, err
}

const queryRun = `SELECT run_id, status, coalesce(output::text, '') FROM runner.v_runs WHERE run_id = ANY($1)`

// ends waits until every run has ended and returns what is wrong with how. The views
// are read, not the API: what is asked of the services is asked by those who work.
func (r *rig) ends(ctx context.Context, runs []events.RunID) (completed int, problems []string) {
	ids := make([]string, 0, len(runs))
	for _, id := range runs {
		ids = append(ids, string(id))
	}
	type row struct{ ID, Status, Output string }
	for {
		rows, err := r.views.Query(ctx, queryRun, ids)
		var found []row
		if err == nil {
			found, err = pgx.CollectRows(rows, pgx.RowToStructByPos[row])
		}
		open := len(ids) - len(found)
		completed, problems = 0, nil
		for _, f := range found {
			switch {
			case f.Status == events.StatusCompleted:
				completed++
			case events.Ended(f.Status) || f.Status == events.StatusAttention:
				problems = append(problems, fmt.Sprintf("run %s is %s", f.ID, f.Status))
			default:
				open++
			}
		}
		if err == nil && open == 0 {
			return completed, problems
		}
		select {
		case <-ctx.Done():
			for _, id := range runs {
				i := slices.IndexFunc(found, func(f row) bool { return f.ID == string(id) })
				if i < 0 {
					problems = append(problems, fmt.Sprintf("run %s was accepted and never began: %v", id, err))
				} else if s := found[i].Status; !events.Ended(s) && s != events.StatusAttention {
					problems = append(problems, fmt.Sprintf("run %s did not end: it is %s, %s", id, s, r.why(id)))
				}
			}
			return completed, problems
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (r *rig) why(id events.RunID) string {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	w, err := r.operator.Why(ctx, id)
	if err != nil {
		return err.Error()
	}
	b, err := json.Marshal(w)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

const queryJournal = `
SELECT (SELECT count(*) FROM (SELECT run_id FROM runner.v_events GROUP BY run_id HAVING min(seq) <> 1 OR max(seq) <> count(*)) g),
       (SELECT count(*) FROM (SELECT run_id, cause, kind FROM runner.v_events
                              WHERE kind IN ('tool_completed', 'approval_decided', 'child_completed', 'signal_received', 'timer_fired', 'run_started')
                              GROUP BY run_id, cause, kind HAVING count(*) > 1) d)`

// journals says what is wrong with the journals of all runs.
func (r *rig) journals(ctx context.Context) (problems []string) {
	var gaps, doubles int
	if err := r.views.QueryRow(ctx, queryJournal).Scan(&gaps, &doubles); err != nil {
		return []string{"journals: " + err.Error()}
	}
	if gaps > 0 {
		problems = append(problems, fmt.Sprintf("%d journals have a gap", gaps))
	}
	if doubles > 0 {
		problems = append(problems, fmt.Sprintf("%d inbound causes are recorded twice", doubles))
	}
	for _, v := range r.model.Violations() {
		problems = append(problems, fmt.Sprintf("the model refused a request of %s: %s", v.Key, v.Message))
	}
	return problems
}

// judge holds what took effect against what was to.
func (r *rig) judge(business []string) (duplicates int, problems []string) {
	t, err := lab.ReadTally(r.file)
	if err != nil {
		return 0, []string{err.Error()}
	}
	for _, key := range business {
		if n := t.EffectsOf(key); n != 1 {
			problems = append(problems, fmt.Sprintf("%s took effect %d times", key, n))
			duplicates += max(n-1, 0)
		}
	}
	return duplicates, problems
}

func (r *rig) pointsFile(name string) string { return filepath.Join(r.dir, name+".points") }

// doubtful says at whose work a process dies where that leaves a doubt: at the tool's
// that only a person can look up.
var doubtful = map[string]string{"tools.acted": "[send ]"}

// arm makes the next process of a name that passes a place end there; "" disarms.
func (r *rig) arm(name, place string) error {
	text := ""
	if place != "" {
		text = place + doubtful[place] + "=kill"
	}
	path := r.pointsFile(name)
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// all restarts what does not run, and says what cannot be started.
func (r *rig) all(ctx context.Context) (err error) {
	for _, p := range r.services.Programs {
		if !slices.Contains(r.sup.Running(p.Role), p.Name) {
			err = errors.Join(err, r.sup.Restart(ctx, p.Name))
		}
	}
	return err
}
