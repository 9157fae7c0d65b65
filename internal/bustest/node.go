package bustest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// envNode makes the test binary one server of a cluster instead.
const envNode = "BUSTEST_NODE"

// node says where one server of a cluster is.
type node struct {
	Name, Dir  string
	Port, Peer int
	Peers      []int
}

// A server that is lost must be a process: one that is told to stop hands its leaders
// over first.
func init() {
	text := os.Getenv(envNode)
	if text == "" {
		return
	}
	if err := serveNode(text); err != nil {
		fmt.Fprintln(os.Stderr, "bustest:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serveNode is a server until its standard input closes, as when the test ends.
func serveNode(text string) error {
	var n node
	if err := json.Unmarshal([]byte(text), &n); err != nil {
		return err
	}
	o := &server.Options{
		ServerName: n.Name, Host: "127.0.0.1", Port: n.Port, JetStream: true, StoreDir: n.Dir,
		JetStreamMaxMemory: 64 << 20, JetStreamMaxStore: 8 << 30, NoSigs: true, NoLog: true,
		Cluster: server.ClusterOpts{Name: "holdfast", Host: "127.0.0.1", Port: n.Peer},
	}
	for _, p := range n.Peers {
		o.Routes = append(o.Routes, &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", p)})
	}
	s, err := server.NewServer(o)
	if err != nil {
		return err
	}
	s.Start()
	if !s.ReadyForConnections(20 * time.Second) {
		return fmt.Errorf("%s is not ready", n.Name)
	}
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return nil
}

// running is a server of a cluster.
type running struct {
	cmd *exec.Cmd
	in  io.Closer
}

func startNode(t testing.TB, n node) *running {
	t.Helper()
	text, err := json.Marshal(n)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), envNode+"="+string(text)), t.Output()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := &running{cmd: cmd, in: in}
	var ready string
	if _, err := fmt.Fscanln(out, &ready); err != nil || ready != "ready" {
		r.kill()
		t.Fatalf("%s says %q: %v", n.Name, ready, err)
	}
	return r
}

// kill ends it as a power failure would, but for what the file system still holds.
func (r *running) kill() {
	_ = r.cmd.Process.Kill()
	_ = r.cmd.Wait()
	_ = r.in.Close()
}
