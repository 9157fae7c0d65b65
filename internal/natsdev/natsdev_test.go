package natsdev_test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-run/holdfast/internal/dirlock"
	"github.com/holdfast-run/holdfast/internal/natsdev"
)

func start(t *testing.T, c natsdev.Config) *natsdev.Server {
	t.Helper()
	s, err := natsdev.Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

func stream(t *testing.T, nc *nats.Conn) jetstream.Stream {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	st, err := js.CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}, MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func TestStart_KeepsMessagesAcrossRestarts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, natsdev.Config{Dir: dir})
	port := s.Port()
	nc, err := nats.Connect(s.URL().Reveal(), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	stream(t, nc)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "s.x", []byte("hello")); err != nil {
		t.Fatal(err)
	}
	s.Stop()
	s.Stop() // a second call does nothing
	s = start(t, natsdev.Config{Dir: dir, Port: port})
	if s.Port() != port {
		t.Fatalf("port %d, want %d", s.Port(), port)
	}
	for deadline := time.Now().Add(10 * time.Second); !nc.IsConnected(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the client did not reconnect")
		}
	}
	m, err := stream(t, nc).GetMsg(t.Context(), 1)
	if err != nil || string(m.Data) != "hello" {
		t.Fatalf("message 1 = %v, %v; want hello", m, err)
	}
}

func TestStart_WithoutListening(t *testing.T) {
	t.Parallel()
	s := start(t, natsdev.Config{Dir: t.TempDir(), DontListen: true})
	if s.URL() != "" || s.Port() != 0 || s.MonitorURL() != "" {
		t.Errorf("URL %q, port %d, monitor %q; want none", s.URL().Reveal(), s.Port(), s.MonitorURL())
	}
	nc, err := nats.Connect("", nats.InProcessServer(s.InProcess()))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	stream(t, nc)
	if err := s.Healthy(t.Context()); err != nil {
		t.Error(err)
	}
	s.Stop()
	if err := s.Healthy(t.Context()); err == nil {
		t.Error("a stopped server calls itself healthy")
	}
}

func TestStart_OneServerPerDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, natsdev.Config{Dir: dir})
	_, err := natsdev.Start(t.Context(), natsdev.Config{Dir: dir})
	held, ok := errors.AsType[*dirlock.HeldError](err)
	if !ok || !strings.Contains(held.Error(), fmt.Sprintf("pid %d, NATS server", os.Getpid())) {
		t.Errorf("second server = %v, want a HeldError that names the holder", err)
	}
	s.Stop()
	start(t, natsdev.Config{Dir: dir})
}

func TestStart_TakenPort(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dir := t.TempDir()
	_, err = natsdev.Start(t.Context(), natsdev.Config{Dir: dir, Port: l.Addr().(*net.TCPAddr).Port})
	if err == nil || !strings.Contains(err.Error(), l.Addr().String()) {
		t.Errorf("Start = %v, want an error that names %s", err, l.Addr())
	}
	start(t, natsdev.Config{Dir: dir}) // the failure left the directory free
}

func TestStart_SaysWhyItCannot(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	// A file where JetStream wants its directory.
	if err := os.WriteFile(filepath.Join(dir, "jetstream"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	_, err := natsdev.Start(t.Context(), natsdev.Config{Dir: dir})
	if err == nil || !strings.Contains(err.Error(), dir) || time.Since(began) > 10*time.Second {
		t.Errorf("Start = %v after %s, want a prompt error that names %s", err, time.Since(began), dir)
	}
}

func TestStart_TokenAndMonitor(t *testing.T) {
	t.Parallel()
	s := start(t, natsdev.Config{Dir: t.TempDir(), Token: "s3cret", MonitorPort: -1})
	nc, err := nats.Connect(s.URL().Reveal())
	if err != nil {
		t.Fatalf("with the token: %v", err)
	}
	nc.Close()
	if nc, err := nats.Connect(fmt.Sprintf("nats://127.0.0.1:%d", s.Port())); err == nil {
		nc.Close()
		t.Error("a client without the token was let in")
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.MonitorURL()+"/healthz", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("monitor: %s", resp.Status)
	}
}
