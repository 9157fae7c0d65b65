package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/client"
)

// loopKind is one of the examples' loops.
type loopKind struct {
	name string
	args []string // the command; the job follows
	env  []string
	// points are the moments at which the loop is killed under a policy, one run
	// each; none means every moment that there is.
	points map[string][]int
}

// TestLoops kills the example loops with SIGKILL at every moment between two of
// their requests, starts them again and counts at the shop: with a shop that
// honours keys, one effect a key; without, and a person who looks, one arrival.
func TestLoops(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"python3", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("%s is missing; scripts/setup.sh test installs it", tool)
		}
	}
	goLoop := filepath.Join(t.TempDir(), "go-loop")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", goLoop, "../../examples/go-loop").CombinedOutput(); err != nil {
		t.Fatalf("build go-loop: %v\n%s", err, out)
	}
	d := deploy(t, fresh(t))
	// The first effect with the saves around it.
	first := map[string][]int{
		client.OnDoubtRetry: {8, 9, 10, 11, 12, 13, 14, 15, 16},
		client.OnDoubtAsk:   {8, 9, 10, 11, 12, 13, 14, 15, 16},
	}
	inShell := map[string][]int{
		client.OnDoubtRetry: {1, 3, 5, 6, 7, 8, 9, 10, 11, 12},
		client.OnDoubtAsk:   {1, 3, 5, 6, 7, 8, 9, 10, 11, 12},
	}
	kinds := []loopKind{
		{name: "python", args: []string{"python3", example(t, "python-loop/loop.py")}, env: []string{"PYTHONDONTWRITEBYTECODE=1", "LEASE=1"}, points: map[string][]int{client.OnDoubtAsk: {2, 17, 18, 19, 20, 21, 22, 23, 24, 39, 40}}},
		{name: "go", args: []string{goLoop, "--lease", "1s"}, points: first},
		{name: "shell", args: []string{"sh", example(t, "shell-loop/loop.sh")}, env: []string{"LEASE=1"}, points: inShell},
	}
	busy := make(chan struct{}, 6) // loops at once
	for _, k := range kinds {
		for _, policy := range []string{client.OnDoubtRetry, client.OnDoubtAsk} {
			t.Run(k.name+" "+policy, func(t *testing.T) {
				t.Parallel()
				whole := d.loop(t, k, policy, 0)
				if exit := whole.run(t); exit != 0 {
					t.Fatalf("undisturbed it ends with %d: %s", exit, whole.said)
				}
				whole.finished(t, 3)
				points := k.points[policy]
				if points == nil {
					for i := range whole.gate.seen {
						points = append(points, i+1)
					}
				}
				if len(whole.gate.seen) < 30 || len(points) < 8 {
					t.Fatalf("only %d moments, %d of them used", len(whole.gate.seen), len(points))
				}
				// They mostly wait for leases: more at once than there are processors.
				var all sync.WaitGroup
				for _, point := range points {
					all.Go(func() {
						busy <- struct{}{}
						defer func() { <-busy }()
						t.Run(fmt.Sprintf("%d %s", point, whole.gate.seen[point-1]), func(t *testing.T) { d.killed(t, k, policy, point) })
					})
				}
				all.Wait()
			})
		}
	}
}

func example(t *testing.T, path string) string {
	t.Helper()
	abs, err := filepath.Abs(filepath.Join("../../examples", path))
	if err != nil {
		t.Fatal(err)
	}
	return abs
}

// killed kills a loop at a moment and lets it come back until it is through.
func (d *deployment) killed(t *testing.T, k loopKind, policy string, point int) {
	t.Helper()
	l := d.loop(t, k, policy, point)
	if exit := l.run(t); exit != -1 {
		t.Fatalf("it ended with %d and was not killed: %s", exit, l.said)
	}
	at := l.gate.seen[point-1]
	// The intent is stored and the outcome is not: nobody can know.
	inDoubt := at == "begin after" || strings.HasPrefix(at, "shop") || at == "record before"
	acted := at == "shop after" || at == "record before"
	doubts := 0
	exit := l.run(t)
	for ; exit == 3; exit = l.run(t) {
		if doubts++; doubts > 1 {
			t.Fatalf("in doubt again: %s", l.said)
		}
		l.resolve(t)
	}
	if exit != 0 {
		t.Fatalf("it came back and ended with %d: %s", exit, l.said)
	}
	wantDoubts, wantArrivals := 0, 3
	if inDoubt && policy == client.OnDoubtAsk {
		wantDoubts = 1
	}
	if acted && policy == client.OnDoubtRetry {
		wantArrivals = 4 // of three keys: the shop honours them
	}
	if doubts != wantDoubts {
		t.Errorf("%d doubts, want %d", doubts, wantDoubts)
	}
	l.finished(t, wantArrivals)
}

// loop is one job of a loop, its shop and the gate through which all of its
// requests pass.
type loop struct {
	d      *deployment
	kind   loopKind
	job    string
	policy string
	gate   *gate
	said   string // by its last process
}

var jobs struct {
	sync.Mutex
	n int
}

func (d *deployment) loop(t *testing.T, k loopKind, policy string, killAt int) *loop {
	t.Helper()
	jobs.Lock()
	jobs.n++
	job := fmt.Sprintf("%s-%s-%d", k.name, policy, jobs.n)
	jobs.Unlock()
	upstream, err := url.Parse(d.edge)
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{killAt: killAt, shop: &shop{path: filepath.Join(t.TempDir(), "arrivals")}, holdfast: httputil.NewSingleHostReverseProxy(upstream)}
	srv := httptest.NewServer(g)
	t.Cleanup(srv.Close)
	g.url = srv.URL
	return &loop{d: d, kind: k, job: job, policy: policy, gate: g}
}

// run runs the loop once and returns its exit status, -1 when it was killed.
func (l *loop) run(t *testing.T) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, l.kind.args[0], append(l.kind.args[1:len(l.kind.args):len(l.kind.args)], l.job)...)
	cmd.Env = append(append(baseEnv(), l.kind.env...), "HOLDFAST_SERVER="+l.gate.url, "HOLDFAST_TOKEN="+l.d.token,
		"SHOP_URL="+l.gate.url+"/shop", "ON_DOUBT="+l.policy)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a shell's curl dies with it
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	l.gate.watch(cmd.Process.Pid)
	err := cmd.Wait()
	l.said = out.String()
	if ctx.Err() != nil {
		t.Fatalf("it does not end: %s", l.said)
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	if err != nil {
		t.Fatal(err)
	}
	return 0
}

var effectInDoubt = regexp.MustCompile(`effects resolve (e-[0-9a-f]+) `)

// resolve does what the loop asks a person for: look at the shop, then say what
// happened.
func (l *loop) resolve(t *testing.T) {
	t.Helper()
	m := effectInDoubt.FindStringSubmatch(l.said)
	if m == nil {
		t.Fatalf("it does not say what to resolve: %s", l.said)
	}
	e, err := l.d.admin.Effect(t.Context(), m[1])
	if err != nil {
		t.Fatal(err)
	}
	if e.State != "unknown" || e.Tool != "program/post_price" || e.RunID == "" {
		t.Errorf("in doubt is %+v", e)
	}
	args := []string{"effects", "resolve", m[1], "not_happened"}
	if id := l.gate.shop.idOf(e.Key); id != "" {
		args = []string{"effects", "resolve", m[1], "happened", "--result", `{"id":"` + id + `"}`}
	}
	if out, bad, code := l.d.cli(t, args...); code != 0 {
		t.Fatalf("%v: exit %d\n%s%s", args, code, out, bad)
	}
}

// finished checks the end from outside: three prices, each once, and a run that
// says so.
func (l *loop) finished(t *testing.T, arrivals int) {
	t.Helper()
	got := l.gate.shop.arrivals(t)
	keys := map[string]int{}
	for _, a := range got {
		keys[a]++
	}
	if len(got) != arrivals || len(keys) != 3 {
		t.Errorf("%d arrivals of %d keys, want %d of 3: %q", len(got), len(keys), arrivals, got)
	}
	page, err := l.d.admin.Runs(t.Context(), client.RunFilter{}, client.PageRequest{Limit: 500})
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, r := range page.Items {
		if r.Kind != "program" {
			continue
		}
		r, err := l.d.admin.Run(t.Context(), r.RunID)
		if err != nil {
			t.Fatal(err)
		}
		var in struct{ Job string }
		if err := json.Unmarshal(r.Input, &in); err != nil || in.Job != l.job {
			continue
		}
		found++
		var said string
		if err := json.Unmarshal(r.Output, &said); err != nil || r.Status != "completed" || !strings.HasPrefix(said, "posted p-") || strings.Count(said, "p-") != 3 {
			t.Errorf("run %s is %s and says %s", r.RunID, r.Status, r.Output)
		}
	}
	if found != 1 {
		t.Errorf("%d runs of %s, want 1", found, l.job)
	}
}

// gate lets a loop's requests through and kills the loop at one moment: before
// or after one of them.
type gate struct {
	url      string
	shop     *shop
	holdfast http.Handler
	killAt   int

	mu   sync.Mutex
	pid  int
	seen []string // what each moment was
}

func (g *gate) watch(pid int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pid = pid
}

// moment is where the loop may die; the request goes no further then.
func (g *gate) moment(what string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seen = append(g.seen, what)
	if len(g.seen) != g.killAt {
		return
	}
	for g.pid == 0 { // it sent a request before its start had returned
		g.mu.Unlock()
		time.Sleep(time.Millisecond)
		g.mu.Lock()
	}
	_ = syscall.Kill(-g.pid, syscall.SIGKILL)
	panic(http.ErrAbortHandler)
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	what := r.Method
	switch {
	case strings.HasPrefix(r.URL.Path, "/shop/"):
		what = "shop"
	case r.URL.Path == "/v1/effects":
		what = "begin"
	case strings.HasPrefix(r.URL.Path, "/v1/effects/"):
		what = "record"
		if strings.HasSuffix(r.URL.Path, "/renew") {
			g.holdfast.ServeHTTP(w, r) // comes when it comes
			return
		}
	case strings.HasSuffix(r.URL.Path, "/checkpoint"):
		what = map[string]string{http.MethodGet: "load", http.MethodPut: "save"}[r.Method]
	case r.URL.Path == "/v1/runs":
		what = "start"
	case strings.HasSuffix(r.URL.Path, "/complete"):
		what = "complete"
	}
	g.moment(what + " before")
	answer := httptest.NewRecorder()
	if what == "shop" {
		g.shop.ServeHTTP(answer, r)
	} else {
		g.holdfast.ServeHTTP(answer, r)
	}
	g.moment(what + " after")
	for k, v := range answer.Header() {
		w.Header()[k] = v
	}
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}

// shop is the outside world: it appends each arrival to a file, and gives one
// key one id.
type shop struct {
	path string
	mu   sync.Mutex
	ids  map[string]string
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	key := r.Header.Get("Idempotency-Key")
	if err != nil || !json.Valid(body) || key == "" {
		http.Error(w, "no price or no key", http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f, err := os.OpenFile(s.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintln(f, key)
	}
	if err != nil || f.Close() != nil {
		http.Error(w, "the shop is broken", http.StatusInternalServerError)
		return
	}
	if s.ids == nil {
		s.ids = map[string]string{}
	}
	if s.ids[key] == "" {
		s.ids[key] = fmt.Sprintf("p-%d", len(s.ids)+1)
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"id":%q}`, s.ids[key])
}

func (s *shop) idOf(key string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ids[key]
}

func (s *shop) arrivals(t *testing.T) []string {
	t.Helper()
	b, err := os.ReadFile(s.path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(b))
}

// TestLoops_TwoCopies lets two processes run one job side by side: no price is
// posted twice, and who is late is told.
func TestLoops_TwoCopies(t *testing.T) {
	t.Parallel()
	d := deploy(t, fresh(t))
	k := loopKind{name: "python", args: []string{"python3", example(t, "python-loop/loop.py")}, env: []string{"PYTHONDONTWRITEBYTECODE=1", "LEASE=20"}}
	one := d.loop(t, k, client.OnDoubtAsk, 0)
	two := *one
	exits := make([]int, 2)
	var wg sync.WaitGroup
	for i, l := range []*loop{one, &two} {
		wg.Go(func() { exits[i] = l.run(t) })
	}
	wg.Wait()
	for i, l := range []*loop{one, &two} {
		if exits[i] != 0 && exits[i] != 4 {
			t.Errorf("copy %d ended with %d: %s", i+1, exits[i], l.said)
		}
	}
	if exit := one.run(t); exit != 0 { // both may have been late once
		t.Fatalf("afterwards it ends with %d: %s", exit, one.said)
	}
	one.finished(t, 3)
}
