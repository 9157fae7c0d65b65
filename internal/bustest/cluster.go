package bustest

import (
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-run/holdfast/internal/bus"
	"github.com/holdfast-run/holdfast/internal/config"
)

// Nodes is how many servers a Cluster has, each with a copy of every stream.
const Nodes = 3

// Cluster is a JetStream of one test on three server processes, each of which the test
// may kill and start again.
type Cluster struct {
	t     testing.TB
	dir   string
	ports [Nodes]int      // of clients
	peers [Nodes]int      // of the servers among themselves
	nodes [Nodes]*running // nil while it is lost
}

// NewCluster starts three servers that end with t.
func NewCluster(t testing.TB) *Cluster {
	t.Helper()
	c := &Cluster{t: t, dir: t.TempDir()}
	for i := range Nodes {
		c.ports[i], c.peers[i] = freePort(t), freePort(t)
	}
	for i := range Nodes {
		c.Start(i)
	}
	t.Cleanup(func() {
		for i := range Nodes {
			c.Kill(i)
		}
	})
	return c
}

// freePort is a port that nobody has now. A server of the test that is started again
// wants the one that it had.
func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// Start starts a node, with the data that it had.
func (c *Cluster) Start(i int) {
	c.t.Helper()
	if c.nodes[i] != nil {
		return
	}
	c.nodes[i] = startNode(c.t, node{Name: c.Name(i), Dir: filepath.Join(c.dir, c.Name(i)), Port: c.ports[i], Peer: c.peers[i], Peers: c.peers[:]})
}

// Kill loses a node, which tells nobody that it goes and hands nothing over.
func (c *Cluster) Kill(i int) {
	if n := c.nodes[i]; n != nil {
		n.kill()
		c.nodes[i] = nil
	}
}

// Name is what the others know a node by.
func (c *Cluster) Name(i int) string { return fmt.Sprintf("node-%d", i) }

// URL names all nodes.
func (c *Cluster) URL() config.Secret {
	var all []string
	for _, p := range c.ports {
		all = append(all, fmt.Sprintf("nats://127.0.0.1:%d", p))
	}
	return config.Secret(strings.Join(all, ","))
}

// Connect returns a connection of its own, as another process would have, provisioned
// with a copy of every stream on each node. It closes with t.
func (c *Cluster) Connect(t testing.TB) *bus.Bus {
	t.Helper()
	b, err := bus.Connect(t.Context(), bus.Config{URL: c.URL(), Name: t.Name(), Replicas: Nodes, Log: Log(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	for deadline := time.Now().Add(time.Minute); ; {
		if err = b.Provision(t.Context(), []string{Pool}); err == nil {
			return b
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// Operator is a connection of somebody who orders leaders about.
type Operator struct {
	c  *Cluster
	nc *nats.Conn
	js jetstream.JetStream
}

// Operator connects one; it closes with the test.
func (c *Cluster) Operator() *Operator {
	c.t.Helper()
	nc, err := nats.Connect(c.URL().Reveal(), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		c.t.Fatal(err)
	}
	return &Operator{c: c, nc: nc, js: js}
}

// StepDown makes the leaders of a stream and of all its consumers hand over. It says
// how many did.
func (o *Operator) StepDown(stream string) (stepped int) {
	s, err := o.js.Stream(o.c.t.Context(), stream)
	if err != nil {
		return 0 // it has no leader now, which is what was wanted
	}
	subjects := []string{"$JS.API.STREAM.LEADER.STEPDOWN." + stream}
	for name := range s.ConsumerNames(o.c.t.Context()).Name() {
		subjects = append(subjects, "$JS.API.CONSUMER.LEADER.STEPDOWN."+stream+"."+name)
	}
	for _, subject := range subjects {
		if m, err := o.nc.Request(subject, nil, 2*time.Second); err == nil && strings.Contains(string(m.Data), `"success":true`) {
			stepped++
		}
	}
	return stepped
}

// Forget deletes a durable consumer.
func (o *Operator) Forget(stream, durable string) error {
	return o.js.DeleteConsumer(o.c.t.Context(), stream, durable)
}

// Leader is the node that leads a stream; -1 while none does.
func (o *Operator) Leader(stream string) int {
	s, err := o.js.Stream(o.c.t.Context(), stream)
	if err != nil || s.CachedInfo().Cluster == nil {
		return -1
	}
	leader := s.CachedInfo().Cluster.Leader
	return slices.IndexFunc([]int{0, 1, 2}, func(i int) bool { return o.c.Name(i) == leader })
}

// Whole reports whether every copy of a stream is up to date.
func (o *Operator) Whole(stream string) bool {
	s, err := o.js.Stream(o.c.t.Context(), stream)
	if err != nil || s.CachedInfo().Cluster == nil || len(s.CachedInfo().Cluster.Replicas) != Nodes-1 {
		return false
	}
	for _, r := range s.CachedInfo().Cluster.Replicas {
		if !r.Current || r.Offline {
			return false
		}
	}
	return true
}
