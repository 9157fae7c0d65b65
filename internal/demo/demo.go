package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast-run/holdfast/internal/lab"
	"github.com/holdfast-run/holdfast/internal/pgdev"
	"github.com/holdfast-run/holdfast/internal/scriptmodel"
)

// Config says how the demo runs.
type Config struct {
	// Binary is the holdfast binary whose services are run.
	Binary string
	// Example holds the YAML files of examples/competitor-monitor.
	Example fs.FS
	// Seed picks who is hit and when.
	Seed uint64
	// Model names a real model of Anthropic; empty means the scripted one.
	Model  string
	APIKey string // for a real model
	JSON   bool   // report as JSON
	Keep   bool   // keep data and logs also after a good night
	Out    io.Writer
	Err    io.Writer // progress
	TTY    bool      // Err is a terminal
}

// Run plays one night and writes the report. ok is false when a check failed;
// an error means that the night could not be played to its end.
func Run(ctx context.Context, c Config) (ok bool, err error) {
	fmt.Fprintf(c.Err, "seed %d\n", c.Seed)
	dir, err := os.MkdirTemp("", "holdfast-demo-")
	if err != nil {
		return false, err
	}
	if err := os.Chmod(dir, 0o711); err != nil { // the database's user passes through
		return false, err
	}
	defer func() {
		switch {
		case ok && err == nil && !c.Keep:
			err = os.RemoveAll(dir)
		default:
			fmt.Fprintf(c.Err, "data and logs are in %s\n", dir)
		}
	}()
	return night(ctx, c, dir)
}

func night(ctx context.Context, c Config, dir string) (ok bool, err error) {
	s := &scene{
		plan: newPlan(c.Seed, honours), scripted: c.Model == "", runs: map[string]string{}, trap: &lab.Trap{}, web: &web{},
		prices: filepath.Join(dir, "prices.jsonl"), p: lab.NewProgress(c.Err, c.TTY),
	}
	defer s.p.End()
	logs := filepath.Join(dir, "logs")
	if err := os.Mkdir(logs, 0o755); err != nil {
		return false, err
	}
	w, err := s.openWorld()
	if err != nil {
		return false, err
	}
	defer w.close()
	database, err := pgdev.Start(ctx, pgdev.Config{Dir: filepath.Join(dir, "postgres")})
	if err != nil {
		return false, err
	}
	defer func() {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		err = errors.Join(err, database.Stop(stop))
	}()
	s.p.Say("Postgres is ready")
	s.sup = lab.NewSupervisor(c.Binary, logs)
	defer s.sup.Close(10*time.Second, lab.Roles)
	services, err := newServices(c, database.URL(), dir, w)
	if err != nil {
		return false, err
	}
	if s.plan.TriggerPoint != "" {
		services.Change("trigger", func(p *lab.Program) { p.Failpoint = s.plan.TriggerPoint + "=kill" })
	}
	if err := services.Start(ctx, s.sup); err != nil {
		return false, err
	}
	if s.truth, err = openTruth(ctx, database.URL()); err != nil {
		return false, fmt.Errorf("read the views: %w", err)
	}
	defer s.truth.pool.Close()
	s.gate = newGate(s.ownerOf)
	if err := s.openDoors(ctx, c, services, w); err != nil {
		return false, err
	}
	alerts, stop := watchAlerts(ctx, s.operator)
	s.alerts = alerts
	defer stop()
	if err := s.play(ctx); err != nil {
		return false, err
	}
	f, err := s.collect(ctx)
	if err != nil {
		return false, err
	}
	if !s.scripted {
		f.Model = c.Model
	}
	s.p.End()
	r := judge(f)
	if r.Logs = logs; c.JSON {
		return r.OK, r.writeJSON(c.Out)
	}
	return r.OK, r.write(c.Out)
}

// openDoors makes the tokens, applies the example and places the people.
func (s *scene) openDoors(ctx context.Context, c Config, services *lab.Services, w *world) error {
	s.admin = newAPI(services.Edge, services.Token)
	people := map[string]*api{}
	for role, name := range map[string]string{"operator": "olga", "approver": "maria"} {
		token, err := s.admin.createToken(ctx, name, role)
		if err != nil {
			return fmt.Errorf("token for the %s: %w", role, err)
		}
		people[role] = newAPI(services.Edge, token)
	}
	s.operator = people["operator"]
	s.desk = newDesk(people["approver"], s.effects, s.plan.ToolsShop, s.plan.ReplayShop)
	docs, err := documents(c.Example, w.webURL, c.Model)
	if err != nil {
		return err
	}
	if err := s.admin.apply(ctx, docs); err != nil {
		return fmt.Errorf("apply the example: %w", err)
	}
	s.p.Say("applied the example: %d files", len(docs))
	return nil
}

// effects is what a person finds in the shop's back office.
func (s *scene) effects(business string) int {
	t, err := lab.ReadTally(s.prices)
	if err != nil {
		return 0
	}
	return t.EffectsOf(business)
}

// honours says which shops honour the Idempotency-Key: those that the example's
// tool calls safe to repeat.
func honours(shop string) bool { n := shopNumber(shop); return n >= 1 && n <= 15 }

// world is the part of the night that is not Holdfast, in this process.
type world struct {
	webURL, pricesURL, modelURL string
	servers                     []*http.Server
	oracle                      *lab.Oracle
}

func (s *scene) openWorld() (*world, error) {
	o, err := lab.OpenOracle(s.prices, honours)
	if err != nil {
		return nil, err
	}
	o.Committed = s.trap.Pass
	w := &world{oracle: o}
	prices := http.NewServeMux()
	prices.Handle("POST /shops/{shop}/prices", o)
	s.model = scriptmodel.New(scriptmodel.Config{
		Script: nightScript, Key: conversationKey,
		Fault: func(r scriptmodel.Request, _ int) scriptmodel.Fault {
			return scriptmodel.Fault{Delay: thinkTime(conversationKey(r), r.Turn())}
		},
		BeforeAnswer: func(ctx context.Context, e scriptmodel.Exchange) { s.gate.pass(ctx, e) },
	})
	for _, part := range []struct {
		url     *string
		handler http.Handler
	}{{&w.webURL, s.web}, {&w.pricesURL, prices}, {&w.modelURL, s.model}} {
		url, server, err := lab.Serve(part.handler)
		if err != nil {
			w.close()
			return nil, err
		}
		w.servers = append(w.servers, server)
		*part.url = url
	}
	return w, nil
}

func (w *world) close() {
	for _, s := range w.servers {
		_ = s.Close()
	}
	_ = w.oracle.Close()
}
