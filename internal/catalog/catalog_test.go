package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-run/holdfast/internal/fault"
	"github.com/holdfast-run/holdfast/internal/pgtest"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

type fixture struct {
	*Catalog
	t  *testing.T
	db *pgxpool.Pool // as superuser, to write what the console writes
}

func setup(t *testing.T) fixture {
	t.Helper()
	db := pgtest.New(t)
	return fixture{New(db.Open(t, "holdfast_tools")), t, db.Pool}
}

// store makes a version current, as an apply does.
func (f fixture) store(namespace, kind, name string, digest events.Digest, body json.RawMessage) {
	f.t.Helper()
	ctx := context.Background()
	if _, err := f.db.Exec(ctx, `INSERT INTO catalog.versions (namespace, kind, name, digest, body, created_by) VALUES ($1,$2,$3,$4,$5::json,'test') ON CONFLICT DO NOTHING`,
		namespace, kind, name, string(digest), string(body)); err != nil {
		f.t.Fatal(err)
	}
	if _, err := f.db.Exec(ctx, `INSERT INTO catalog.current (namespace, kind, name, digest, version, updated_by) VALUES ($1,$2,$3,$4,1,'test')
		ON CONFLICT (namespace, kind, name) DO UPDATE SET digest = excluded.digest, version = catalog.current.version + 1`,
		namespace, kind, name, string(digest)); err != nil {
		f.t.Fatal(err)
	}
}

func (f fixture) apply(namespace, text string) []spec.Document {
	f.t.Helper()
	docs, err := spec.Parse("test.yaml", []byte(text))
	if err != nil {
		f.t.Fatal(err)
	}
	for _, d := range docs {
		f.store(namespace, d.Kind, d.Name, d.Digest, d.Body)
	}
	return docs
}

func budget(name string, limit int) string {
	return fmt.Sprintf("apiVersion: holdfast/v1\nkind: Budget\nmetadata: {name: %s}\nspec: {limit: %d}\n", name, limit)
}

func TestCurrent_IsNeverOld(t *testing.T) {
	t.Parallel()
	f, ctx := setup(t), t.Context()
	one := f.apply("default", budget("night", 1))[0]
	got, err := f.Current(ctx, "default", "budget", "night")
	if err != nil {
		t.Fatal(err)
	}
	want := Version{"default", "budget", "night", one.Digest, one.Body}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("version (-want +got):\n%s", diff)
	}
	two := f.apply("default", budget("night", 2))[0]
	if got, err := f.Current(ctx, "default", "budget", "night"); err != nil || got.Digest != two.Digest {
		t.Errorf("after an apply it is %s, %v; want %s", got.Digest, err, two.Digest)
	}
	if b, err := f.Budget(ctx, "default", one.Digest); err != nil || b.Limit.Whole() != 1 {
		t.Errorf("the version before is %+v, %v", b, err)
	}
}

func TestNotFound(t *testing.T) {
	t.Parallel()
	f, ctx := setup(t), t.Context()
	d := f.apply("default", budget("night", 1))[0]
	tests := map[string]func() error{
		"another name":      func() error { _, err := f.Current(ctx, "default", "budget", "day"); return err },
		"another namespace": func() error { _, err := f.Current(ctx, "other", "budget", "night"); return err },
		"another kind":      func() error { _, err := f.Current(ctx, "default", "agent", "night"); return err },
		"a digest of another namespace": func() error {
			_, err := f.Budget(ctx, "default", d.Digest) // in memory now
			if err != nil {
				return err
			}
			_, err = f.Budget(ctx, "other", d.Digest)
			return err
		},
		"a digest of another kind": func() error { _, err := f.Agent(ctx, "default", d.Digest); return err },
		"an unknown digest":        func() error { _, err := f.Get(ctx, "default", "budget", events.DigestOf(nil)); return err },
	}
	for name, try := range tests {
		if err := try(); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: error %v, want ErrNotFound", name, err)
		}
	}
}

// TestSameNameInTwoNamespaces: they are two definitions.
func TestSameNameInTwoNamespaces(t *testing.T) {
	t.Parallel()
	f, ctx := setup(t), t.Context()
	a := f.apply("a", budget("night", 1))[0]
	b := f.apply("b", budget("night", 2))[0]
	for namespace, want := range map[string]events.Digest{"a": a.Digest, "b": b.Digest} {
		if got, err := f.Current(ctx, namespace, "budget", "night"); err != nil || got.Digest != want {
			t.Errorf("namespace %s: %s, %v; want %s", namespace, got.Digest, err, want)
		}
	}
}

func TestGet_ReadsAVersionOnce(t *testing.T) {
	t.Parallel()
	f, ctx := setup(t), t.Context()
	d := f.apply("default", budget("night", 1))[0]
	first, err := f.Budget(ctx, "default", d.Digest)
	if err != nil {
		t.Fatal(err)
	}
	f.pool.Close() // what was seen needs no database
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if again, err := f.Budget(ctx, "default", d.Digest); err != nil || again != first {
				t.Errorf("again: %p, %v; want the same value %p", again, err, first)
			}
		})
	}
	wg.Wait()
	if _, err := f.Current(ctx, "default", "budget", "night"); err == nil {
		t.Error("Current answered without the database")
	}
}

func TestGet_EveryKind(t *testing.T) {
	t.Parallel()
	f, ctx := setup(t), t.Context()
	paths, err := filepath.Glob("../../examples/competitor-monitor/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no example: %v", err)
	}
	texts := []string{"apiVersion: holdfast/v1\nkind: MCPServer\nmetadata: {name: files}\nspec: {stdio: {command: files}}\n",
		"apiVersion: holdfast/v1\nkind: Channel\nmetadata: {name: ops}\nspec: {slack: {webhook: {env: OPS_HOOK}}}\n"}
	for _, p := range paths {
		text, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	kinds := map[string]bool{}
	for _, text := range texts {
		for _, d := range f.apply("default", text) {
			kinds[d.Kind] = true
			var name string
			var err error
			switch d.Kind {
			case spec.KindAgent:
				x, e := f.Agent(ctx, "default", d.Digest)
				name, err = x.Name, e
			case spec.KindFlow:
				x, e := f.Flow(ctx, "default", d.Digest)
				name, err = x.Name, e
			case spec.KindTool:
				x, e := f.Tool(ctx, "default", d.Digest)
				name, err = x.Name, e
			case spec.KindModel:
				x, e := f.Model(ctx, "default", d.Digest)
				name, err = x.Name, e
			case spec.KindWebhook:
				x, e := f.Webhook(ctx, "default", d.Digest)
				name, err = x.Name, e
			case spec.KindSchedule:
				x, e := f.Schedule(ctx, "default", d.Digest)
				name, err = x.Name, e
			case spec.KindBudget:
				x, e := f.Budget(ctx, "default", d.Digest)
				name, err = x.Name, e
			case spec.KindMCPServer:
				x, e := f.MCPServer(ctx, "default", d.Digest)
				name, err = x.Name, e
			case spec.KindChannel:
				x, e := f.Channel(ctx, "default", d.Digest)
				name, err = x.Name, e
			}
			if err != nil || name != d.Name {
				t.Errorf("%s %s: got %q, %v", d.Kind, d.Name, name, err)
			}
			got, err := f.Get(ctx, "default", d.Kind, d.Digest)
			if err != nil || string(got.Body) != string(d.Body) {
				t.Errorf("%s %s: the body changed on the way (%v)", d.Kind, d.Name, err)
			}
		}
	}
	if len(kinds) != len(spec.Kinds) {
		t.Errorf("these are of the kinds %v, want all of %v", kinds, spec.Kinds)
	}
}

func TestGet_Corrupt(t *testing.T) {
	t.Parallel()
	f, ctx := setup(t), t.Context()
	d := f.apply("default", budget("night", 1))[0]
	changed := strings.Replace(string(d.Body), `"limit":1`, `"limit":9`, 1)
	if _, err := f.db.Exec(ctx, `UPDATE catalog.versions SET body = $1::json`, changed); err != nil {
		t.Fatal(err)
	}
	// A sound body under another kind's name.
	f.store("default", spec.KindAgent, "night", d.Digest, d.Body)
	// A body that a later release wrote.
	newer := json.RawMessage(strings.Replace(string(d.Body), `"limit"`, `"frozen":true,"limit"`, 1))
	f.store("default", spec.KindBudget, "newer", events.DigestOf(newer), newer)

	tests := map[string]struct {
		try     func() error
		corrupt bool
	}{
		"a changed body by digest": {func() error { _, err := f.Get(ctx, "default", "budget", d.Digest); return err }, true},
		"a changed body by name":   {func() error { _, err := f.Current(ctx, "default", "budget", "night"); return err }, true},
		"another kind":             {func() error { _, err := f.Agent(ctx, "default", d.Digest); return err }, true},
		"an unknown field":         {func() error { _, err := f.Budget(ctx, "default", events.DigestOf(newer)); return err }, false},
	}
	for name, tc := range tests {
		err := tc.try()
		_, terminal := fault.TerminalCode(err)
		if err == nil || errors.Is(err, ErrCorrupt) != tc.corrupt || terminal != tc.corrupt {
			t.Errorf("%s: error %v, terminal %v; want corrupt and terminal: %v", name, err, terminal, tc.corrupt)
		}
	}
	list, err := f.List(ctx, "", "budget")
	if err != nil || len(list) != 2 || list[0].Name != "newer" || list[0].Body == nil || list[1].Name != "night" || list[1].Body != nil {
		t.Errorf("list %+v, %v; want both, the damaged one without a body", list, err)
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	f, ctx := setup(t), t.Context()
	var want []string
	var text strings.Builder
	for i := range pageSize + 20 {
		name := fmt.Sprintf("b%04d", i)
		want = append(want, "default/"+name)
		text.WriteString(budget(name, i+1) + "---\n")
	}
	f.apply("default", text.String())
	f.apply("other", budget("b0000", 1))
	f.apply("default", budget("b0001", 5000))
	flat := func(namespace string) []string {
		t.Helper()
		list, err := f.List(ctx, namespace, "budget")
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, v := range list {
			out = append(out, v.Namespace+"/"+v.Name)
			if events.DigestOf(v.Body) != v.Digest || v.Kind != "budget" {
				t.Errorf("%s/%s has a body that is not its own", v.Namespace, v.Name)
			}
			if v.Name == "b0001" && !strings.Contains(string(v.Body), `"limit":5000`) {
				t.Errorf("b0001 is an old version: %s", v.Body)
			}
		}
		return out
	}
	for range 2 { // from the database, then from memory
		if diff := cmp.Diff(want, flat("default")); diff != "" {
			t.Errorf("one namespace (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(append(append([]string(nil), want...), "other/b0000"), flat("")); diff != "" {
			t.Errorf("all namespaces (-want +got):\n%s", diff)
		}
	}
	if got := flat("nobody"); got != nil {
		t.Errorf("an empty namespace lists %v", got)
	}
}

// TestRoles: every service may read through the views.
func TestRoles(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	f := fixture{nil, t, db.Pool}
	d := f.apply("default", budget("night", 1))[0]
	for _, role := range []string{"holdfast_trigger", "holdfast_runner", "holdfast_tools", "holdfast_approvals", "holdfast_console"} {
		c := New(db.Open(t, role))
		if _, err := c.Current(t.Context(), "default", "budget", "night"); err != nil {
			t.Errorf("%s: Current: %v", role, err)
		}
		if _, err := c.Get(t.Context(), "default", "budget", d.Digest); err != nil {
			t.Errorf("%s: Get: %v", role, err)
		}
		if list, err := c.List(t.Context(), "", "budget"); err != nil || len(list) != 1 {
			t.Errorf("%s: List: %v, %v", role, list, err)
		}
	}
}

func TestQueriesPrepare(t *testing.T) {
	t.Parallel()
	f := setup(t)
	conn, err := f.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	for i, q := range []string{queryCurrent, queryVersion, queryList, queryBodies} {
		if _, err := conn.Conn().Prepare(t.Context(), fmt.Sprintf("q%d", i), q); err != nil {
			t.Errorf("%s: %v", q, err)
		}
	}
}

func TestCache_IsBounded(t *testing.T) {
	t.Parallel()
	version := func(i, size int) Version {
		return Version{"default", "budget", fmt.Sprint(i), events.DigestOf(fmt.Append(nil, i)), json.RawMessage(strings.Repeat("x", size))}
	}
	c := newCache(3, 100)
	for i := range 3 {
		c.add(version(i, 10))
	}
	c.get(keyOf(version(0, 10))) // used last, so 1 goes first
	c.add(version(3, 10))
	for i, want := range []bool{true, false, true, true} {
		if got := c.get(keyOf(version(i, 10))) != nil; got != want {
			t.Errorf("version %d kept: %v, want %v", i, got, want)
		}
	}
	c.add(version(4, 95))
	if c.used > 100 || len(c.byKey) != 1 || c.order.Len() != 1 {
		t.Errorf("%d bytes in %d entries after a large one", c.used, len(c.byKey))
	}
	c.add(version(5, 500))
	if c.get(keyOf(version(5, 500))) == nil || len(c.byKey) != 1 || c.used != 500 {
		t.Errorf("one that is larger than the limit is not kept alone: %d bytes in %d entries", c.used, len(c.byKey))
	}
}

// What many names mean is found name by name, also by a plan that was made while the
// tables were empty.
func TestCurrent_ReadsNothingElse(t *testing.T) {
	t.Parallel()
	plan := pgtest.New(t).KeptPlan(t, queryCurrent)
	if !strings.Contains(plan, "using current_pkey on") || strings.Contains(plan, "Seq Scan") || strings.Contains(plan, "Hash Join") || strings.Contains(plan, "Merge Join") {
		t.Errorf("the whole catalog is read:\n%s", plan)
	}
}
