package bus_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-run/holdfast/internal/bus"
	"github.com/holdfast-run/holdfast/internal/config"
	"github.com/holdfast-run/holdfast/internal/natsdev"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// users is a server with the users of deploy/nats/holdfast.conf.
func users(t *testing.T) (url string, passwords string) {
	t.Helper()
	dir := t.TempDir()
	text, err := os.ReadFile("../../deploy/nats/holdfast.conf")
	if err != nil {
		t.Fatal(err)
	}
	var known strings.Builder
	for _, s := range bus.Services() {
		fmt.Fprintf(&known, "%s_password: \"the password of %s\"\n", s, s)
		write(t, filepath.Join(dir, s), "the password of "+s+"\n")
	}
	write(t, filepath.Join(dir, "holdfast.conf"), string(text))
	write(t, filepath.Join(dir, "passwords.conf"), known.String())
	server, err := natsdev.Start(t.Context(), natsdev.Config{Dir: filepath.Join(dir, "nats"), ConfigFile: filepath.Join(dir, "holdfast.conf")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	return server.URL().Reveal(), dir
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// as is what a process that has a service's password may do: anything that the
// server lets it.
func as(t *testing.T, url, service string) (nc *nats.Conn, denied func() []string) {
	t.Helper()
	var mu sync.Mutex
	var all []string
	nc, err := nats.Connect(url, nats.UserInfo(service, "the password of "+service), nats.CustomInboxPrefix(bus.Inbox(service)),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, strings.ToLower(err.Error()))
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

// Who takes one service over may not do what is another's.
func TestPermissions_Refusals(t *testing.T) {
	t.Parallel()
	url, _ := users(t)
	const run, call = "hf.run.r1.", "hf.tool.default.c1"
	publish := map[string][]string{
		"trigger":   {run + "step", run + "tool_completed", run + "approval_decided", run + "timer_fired", run + "pause", call, "hf.toolctl.c1", "hf.approval.a1.ask", "hf.event.run.r1", "hf.in.x", "hf.live.r1"},
		"runner":    {run + "tool_completed", run + "approval_decided", run + "signal", run + "fork", run + "message", "hf.in.x", "hf.toolsvc.x"},
		"tools":     {run + "start", run + "step", run + "cancel", run + "approval_decided", run + "raise_budget", run + "child_completed", "hf.toolctl.c1", "hf.approval.a1.ask", "hf.event.run.r1", "hf.in.x", "anything"},
		"approvals": {run + "start", run + "step", run + "cancel", run + "tool_completed", call, "hf.toolctl.c1", "hf.approval.a1.ask", "hf.event.run.r1"},
		"console":   {run + "start", run + "step", run + "tool_completed", run + "approval_decided", run + "timer_fired", call, "hf.toolctl.c1", "hf.event.run.r1", "hf.live.r1"},
	}
	api := func(what string) string { return "$JS.API." + what }
	everywhere := []string{api("STREAM.DELETE.RUNS"), api("STREAM.DELETE.EVENTS"), api("STREAM.CREATE.MINE"), api("STREAM.MSG.GET.RUNS"), api("STREAM.MSG.DELETE.RUNS"), api("STREAM.PURGE.RUNS"), api("CONSUMER.DELETE.RUNS.runner"), api("STREAM.SNAPSHOT.RUNS"), api("STREAM.LEADER.STEPDOWN.RUNS"), "$SYS.REQ.SERVER.PING"}
	owner := map[string]string{"IN": "trigger", "RUNS": "runner", "EVENTS": "runner", "TOOLS": "tools", "APPROVALS": "approvals"}
	for _, s := range bus.Services() {
		t.Run(s, func(t *testing.T) {
			t.Parallel()
			subjects := slices.Concat(publish[s], everywhere)
			for stream, by := range owner {
				if by != s {
					subjects = append(subjects, api("STREAM.CREATE."+stream), api("STREAM.UPDATE."+stream), "$JS.ACK."+stream+".x.1.1.1.1.1")
				}
				if by != s && stream != "EVENTS" {
					subjects = append(subjects, api("CONSUMER.CREATE."+stream+".mine"), api("CONSUMER.MSG.NEXT."+stream+".x"))
				}
			}
			if s != "runner" {
				subjects = append(subjects, api("STREAM.PURGE.EVENTS"))
			}
			nc, denied := as(t, url, s)
			for _, subject := range subjects {
				if err := nc.Publish(subject, nil); err != nil {
					t.Fatal(err)
				}
			}
			var listens []string
			for _, other := range bus.Services() {
				if other != s {
					listens = append(listens, bus.Inbox(other)+".>")
				}
			}
			listens = append(listens, ">", "_INBOX.>", "hf.>", "hf.run.*.*", "hf.event.>", "$JS.>", "$SYS.>")
			if s != "console" && s != "trigger" { // these stream runs
				listens = append(listens, "hf.live.*")
			}
			for _, subject := range listens {
				if _, err := nc.SubscribeSync(subject); err != nil {
					t.Fatal(err)
				}
			}
			if err := nc.Flush(); err != nil {
				t.Fatal(err)
			}
			var all string
			for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
				got := denied()
				if all = strings.Join(got, "\n"); len(got) >= len(subjects)+len(listens) || time.Now().After(deadline) {
					break
				}
			}
			for what, list := range map[string][]string{"publish": subjects, "subscription": listens} {
				for _, subject := range list {
					if !strings.Contains(all, fmt.Sprintf("permissions violation for %s to %q", what, strings.ToLower(subject))) {
						t.Errorf("%s: %s to %s is allowed", s, what, subject)
					}
				}
			}
		})
	}
}

// What the registry of messages says that a service sends, it may send.
func TestPermissions_CoverTheRegistry(t *testing.T) {
	t.Parallel()
	for _, kind := range events.Types() {
		for from := range strings.SplitSeq(kind.From, ", ") {
			if !slices.Contains(bus.Services(), from) {
				continue
			}
			may := bus.PermissionsOf(from).Publish
			some := false
			for _, pattern := range kind.Subjects {
				subject := strings.NewReplacer("step-<lane>", "step-i0").Replace(pattern)
				tokens := strings.Split(subject, ".")
				some = some || slices.ContainsFunc(may, func(m string) bool {
					want := strings.Split(m, ".")
					return len(want) == len(tokens) && !slices.ContainsFunc(slices.Collect(indexes(len(want))), func(i int) bool { return want[i] != "*" && want[i] != tokens[i] })
				})
			}
			if !some {
				t.Errorf("%s sends %s to %v and may not", from, kind.Type, kind.Subjects)
			}
		}
	}
}

func indexes(n int) func(func(int) bool) {
	return func(yield func(int) bool) {
		for i := range n {
			if !yield(i) {
				return
			}
		}
	}
}

// Each service sets up its own streams and no others, over connections that read
// their password from a file; streams that vanish come back by their owners.
func TestOwn_StreamsComeFromTheirOwners(t *testing.T) {
	t.Parallel()
	url, dir := users(t)
	buses := map[string]*bus.Bus{}
	for _, s := range bus.Services() {
		b, err := bus.Connect(t.Context(), bus.Config{
			URL: config.Secret(url), Name: s, Services: []string{s}, Own: true,
			Credentials: bus.Credentials{User: s, PasswordFile: filepath.Join(dir, s)},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		buses[s] = b
		if err := b.Provision(t.Context(), []string{"default"}); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	console, _ := as(t, url, "console")
	js, err := jetstream.New(console)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"IN", "RUNS", "TOOLS", "APPROVALS", "EVENTS"} {
		if _, err := js.Stream(t.Context(), name); err != nil {
			t.Errorf("stream %s: %v", name, err)
		}
	}
	m := fact(1)
	if err := buses["trigger"].Publish(t.Context(), m); err != nil {
		t.Errorf("trigger sends a signal: %v", err)
	}
	got := make(chan events.Received, 1)
	k, err := buses["runner"].Consume(t.Context(), bus.Consumption{
		Stream: events.StreamRuns, Durable: events.ConsumerRunner, Workers: 1,
		Handle: func(_ context.Context, m events.Received) error { got <- m; return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case r := <-got:
		if r.Subject != m.Subject {
			t.Errorf("the runner got %s", r.Subject)
		}
	case <-time.After(30 * time.Second):
		t.Error("the runner got nothing")
	}
	if err := k.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if err := buses["tools"].Publish(t.Context(), fact(2)); err == nil {
		t.Error("tools sent a signal")
	}
}

// A password that is changed is read from its file at the next connection.
func TestCredentials(t *testing.T) {
	t.Parallel()
	url, dir := users(t)
	file := filepath.Join(dir, "later")
	write(t, file, "not yet")
	b, err := bus.Connect(t.Context(), bus.Config{URL: config.Secret(url), Services: []string{"trigger"}, Own: true, Credentials: bus.Credentials{User: "trigger", PasswordFile: file}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	if err := b.Ready(t.Context()); !errors.Is(err, bus.ErrDisconnected) {
		t.Fatalf("a wrong password connects: %v", err)
	}
	write(t, file, "the password of trigger")
	if err := b.Provision(t.Context(), nil); err != nil { // waits for the connection
		t.Fatal(err)
	}
	for name, c := range map[string]bus.Credentials{
		"two ways":            {User: "x", Password: "y", NKeyFile: file},
		"a user alone":        {User: "x"},
		"a password alone":    {Password: "x"},
		"two passwords":       {User: "x", Password: "y", PasswordFile: file},
		"a certificate alone": {CertFile: file},
		"no such file":        {User: "x", PasswordFile: filepath.Join(dir, "absent")},
		"no authorities":      {CAFile: file},
		"no seed":             {NKeyFile: file},
		"no credentials":      {CredsFile: filepath.Join(dir, "absent")},
	} {
		if b, err := bus.Connect(t.Context(), bus.Config{URL: config.Secret(url), Credentials: c}); err == nil {
			b.Close()
			t.Errorf("%s is accepted", name)
		}
	}
}
