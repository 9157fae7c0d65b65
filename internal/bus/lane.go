package bus

import (
	"github.com/nats-io/nats.go"
)

// Lane is one of several queues that share slots. It is used by the one consumer
// of its queue.
type Lane interface {
	Slots
	// Await says that messages wait and returns how many of them may begin: at least
	// one, each paid back by a Release, or none when done was closed.
	Await(done <-chan struct{}) int
	// More says whether the queue is known to have another message.
	More(bool)
}

// pullForLane waits for one message, the doorbell, which holds no slot. What rings
// without a slot goes back at once, so that a process with a free one gets it; the
// lane then waits for its turn and pulls nothing until it has come.
func (k *Consumer) pullForLane() error {
	lane := k.c.Lane
	rang := false
	err := k.puller.pull(1, pullExpiry, func(msg *nats.Msg) {
		rang = true
		if !k.startIfFree(msg) {
			lane.More(true)
			k.handBack(msg)
		}
	})
	for err == nil && rang {
		left := lane.Await(k.stop)
		if left == 0 {
			break
		}
		asked := left
		if k.c.Take == nil || k.c.Take() {
			err = k.puller.pull(left, 0, func(msg *nats.Msg) {
				if left == 0 { // a stray answer to an older pull
					if !k.startIfFree(msg) {
						k.handBack(msg)
					}
				} else if k.start(msg, lane.Release) {
					left--
				}
			})
		}
		for range left {
			lane.Release()
		}
		rang = left < asked
		lane.More(left == 0)
	}
	lane.More(false)
	return err
}

// startIfFree starts the handler of a message that came without a slot; false when
// there is none. A message that a handler works on already is that handler's.
func (k *Consumer) startIfFree(msg *nats.Msg) bool {
	if !k.c.Lane.TryAcquire() {
		return false
	}
	if !k.start(msg, k.c.Lane.Release) {
		k.c.Lane.Release()
	}
	return true
}
