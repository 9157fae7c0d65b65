package bus

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/holdfast-run/holdfast/internal/natsdev"
)

// A redelivery that crossed the acknowledgement starts no second handler, also
// when the first one has ended already; its own delivery is acknowledged.
func TestHeld_ARedeliveryBehindTheEndIsAcknowledged(t *testing.T) {
	t.Parallel()
	s, err := natsdev.Start(t.Context(), natsdev.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	nc, err := nats.Connect(s.URL().Reveal())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	again, err := nc.SubscribeSync("second")
	if err != nil {
		t.Fatal(err)
	}
	k := &Consumer{bus: &Bus{nc: nc}}
	table, key := newHeldTable(), heldKey{stream: "RUNS", seq: 1, stored: 1}
	h, _ := table.take(key, k, "first", 1)
	h.acked = true
	table.release(h)
	if _, adopted := table.take(key, k, "second", 2); !adopted {
		t.Fatal("the message is handled again")
	}
	if msg, err := again.NextMsg(5 * time.Second); err != nil || string(msg.Data) != string(wireAck) {
		t.Errorf("the second delivery got %v, %v", msg, err)
	}
	if open := table.forget(table.all()); len(open) != 0 {
		t.Errorf("%d messages are still worked on", len(open))
	}
	if n := len(table.all()); n != 1 {
		t.Errorf("%d messages are remembered while one may come back", n)
	}
	h.over = h.over.Add(-AckWait)
	table.forget(table.all())
	if n := len(table.all()); n != 0 {
		t.Errorf("%d messages are remembered for longer than they can come back", n)
	}
	other, _ := table.take(heldKey{stream: "RUNS", seq: 2, stored: 1}, k, "other", 1)
	table.release(other) // not acknowledged: it is to be handled again
	if _, adopted := table.take(other.key, k, "second", 2); adopted {
		t.Error("a message that was given back is not handled again")
	}
}
