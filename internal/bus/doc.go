// Package bus is how services talk over NATS JetStream: it sets the streams up,
// publishes, consumes and tails. It alone decides about acknowledgements; the
// rules are in ack.go.
//
// It guarantees at-least-once delivery: a message leaves a work queue only after
// its handler returned nil, or after a terminal fault was stored by Reject. It
// never tells who owns the work, because JetStream accepts the acknowledgement
// of anybody who once got the message: claims in Postgres decide that, and a
// handler that lost its claim returns fault.ErrLost.
//
// Postgres is the truth. When NATS comes back without its data, consumers set
// the streams up again and drop the acknowledgements of messages that are gone;
// the services' own rows bring the work back.
//
// A process has one Bus per service. What a Bus holds is adopted by that Bus
// alone.
package bus
