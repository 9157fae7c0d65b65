package tools_test

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-run/holdfast/internal/bus"
	"github.com/holdfast-run/holdfast/internal/config"
	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/tools"
	"github.com/holdfast-run/holdfast/services/tools/inbox"
	"github.com/holdfast-run/holdfast/services/tools/postgres"
)

// The test binary is also the tools process that tests kill.
const (
	envWorker  = "TOOLS_TEST_WORKER"
	envDB      = "TOOLS_TEST_DB"
	envNATS    = "TOOLS_TEST_NATS"
	envOutside = "HOLDFAST_TOOL_OUTSIDE"
	envToken   = "HOLDFAST_SECRET_CANARY"
	envPools   = "TOOLS_TEST_POOLS" // a worker works for these pools, separated by commas, with many slots
	envDoor    = "HOLDFAST_TOOL_DOOR"
	envNoURL   = "TOOLS_TEST_NO_URL" // nobody has said where other systems reach us
	canary     = "canary-7f3a9c51e2d84b60"
)

func TestMain(m *testing.M) {
	if os.Getenv(envWorker) == "" {
		flag.Parse()
		// Most of a test is waiting for beats, leases and redeliveries.
		if n := flag.Lookup("test.parallel"); n.Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
			_ = flag.Set("test.parallel", strconv.Itoa(max(6, runtime.GOMAXPROCS(0))))
		}
		os.Exit(m.Run())
	}
	if err := workerProcess(); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
}

// workerProcess runs the service until its standard input closes.
func workerProcess() error {
	ctx := context.Background()
	b, err := bus.Connect(ctx, bus.Config{URL: config.Secret(os.Getenv(envNATS)), Name: "worker"})
	if err != nil {
		return err
	}
	p, err := startService(ctx, config.Secret(os.Getenv(envDB)), b, slog.New(slog.DiscardHandler), kinds(os.LookupEnv))
	if err != nil {
		return err
	}
	fmt.Println("ready", p.name)
	_, _ = io.Copy(io.Discard, os.Stdin)
	return p.stop()
}

// process is one tools process, real or played inside the test.
type process struct {
	name    string
	service *tools.Service
	beat    *pg.Beat
	store   *postgres.Store
	metrics *telemetry.Telemetry
	stop    func() error
}

// startService starts what cmd would. heart, when given, stands between the
// service and its heartbeat.
func startService(ctx context.Context, url config.Secret, b *bus.Bus, log *slog.Logger, kinds []tools.Kind, heart ...func(tools.Heart) tools.Heart) (*process, error) {
	pool, err := pg.Open(ctx, pg.Config{URL: url, Role: "holdfast_tools", MaxConns: 8})
	if err != nil {
		return nil, err
	}
	return startOn(ctx, url, pool, b, log, defs(), func(s *postgres.Store) []tools.Kind { return withRunArtifacts(withEnds(kinds, s), s) }, heart...)
}

// startOn starts it over a pool, which it closes, with other definitions and kinds.
func startOn(ctx context.Context, url config.Secret, pool *pgxpool.Pool, b *bus.Bus, log *slog.Logger, defs definitions, kinds func(*postgres.Store) []tools.Kind, heart ...func(tools.Heart) tools.Heart) (*process, error) {
	p := &process{name: pg.WorkerName("tools"), store: postgres.New(pool), metrics: telemetry.Discard()}
	counts, err := tools.NewMetrics(p.metrics)
	if err != nil {
		return nil, err
	}
	p.beat = pg.NewBeat(pg.Config{URL: url, Role: "holdfast_tools"}, "tools", p.name, log)
	if err := p.beat.Start(ctx); err != nil {
		return nil, err
	}
	relay := p.store.NewRelay(b.Publish)
	beating := tools.Heart(p.beat)
	for _, f := range heart {
		beating = f(beating)
	}
	slots, pools := 16, []string{"default", events.PoolCallbacks}
	if given := os.Getenv(envPools); given != "" {
		slots, pools = 64, strings.Split(given, ",")
	}
	publicURL := func() string { return publicURL }
	if os.Getenv(envNoURL) != "" {
		publicURL = nil
	}
	p.service, err = tools.New(tools.Config{Worker: p.name, Slots: slots, SweepEvery: 200 * time.Millisecond, Pools: pools}, tools.Deps{
		Store: p.store, Controls: p.store, Reader: p.store, Once: p.store, Stops: p.store, Replies: p.store, PublicURL: publicURL, Tools: defs, Callbacks: callbacks(p.store), Kinds: kinds(p.store), Bus: b, Heart: beating,
		Consume: inbox.Consume(b, p.beat.Holding), Kick: relay.Kick, Log: log, Metrics: counts,
	})
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(ctx)
	var loops sync.WaitGroup
	for _, run := range []func(context.Context) error{p.beat.Run, relay.Run, p.service.Run} {
		loops.Go(func() { _ = run(running) })
	}
	if err := p.service.Start(ctx); err != nil {
		cancel()
		return nil, err
	}
	var once sync.Once
	p.stop = func() error {
		var err error
		once.Do(func() {
			stopping, done := context.WithTimeout(context.Background(), 5*time.Second)
			defer done()
			err = p.service.Stop(stopping)
			cancel()
			if serr := p.beat.Stop(stopping); err == nil {
				err = serr
			}
		})
		cancel()
		loops.Wait()
		pool.Close()
		return err
	}
	return p, nil
}

// forked is a real tools process.
type forked struct {
	*os.Process
	dead <-chan struct{} // closed when it has ended
}

// fork starts a real tools process that dies at the failpoints. env goes before
// what a worker is given otherwise.
func (w *world) fork(failpoints string, env ...string) forked {
	w.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envWorker+"=1", envDB+"="+w.db.URL.Reveal(), envNATS+"="+w.nats.URL().Reveal(),
		envOutside+"="+w.outside.URL, envToken+"="+canary, "HOLDFAST_FAILPOINTS="+failpoints)
	cmd.Env = append(cmd.Env, env...)
	in, err := cmd.StdinPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "ready ") {
		w.t.Fatalf("worker said %q: %v", line, err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	w.t.Cleanup(func() {
		_ = in.Close()
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			_ = cmd.Process.Kill()
			<-ended
		}
	})
	return forked{cmd.Process, ended}
}

// killed sends c to a real process that dies at the failpoint, then starts a
// survivor and lets the message come back.
func (w *world) killed(c events.CallTool, point string) {
	w.t.Helper()
	p := w.fork(fmt.Sprintf("%s[%s]=kill", point, c.CallID))
	w.send(c, "")
	select {
	case <-p.dead:
	case <-time.After(20 * time.Second):
		w.t.Fatalf("the worker did not die at %s\n%s", point, w.rows())
	}
	w.start()
}
