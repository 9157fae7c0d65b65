// Package client speaks the HTTP API of Holdfast: start runs and watch them,
// decide approvals, settle effects, apply definitions, manage tokens.
//
//	c, err := client.New(client.Config{Server: "http://127.0.0.1:8787", Token: token})
//	started, err := c.Start(ctx, client.StartRequest{Agent: "triage", Input: json.RawMessage(`{"issue": 7}`)})
//	for event, err := range c.Watch(ctx, started.RunID, 0) { ... }
//
// A program of your own that must survive its crashes uses Once for what it does
// to the outside world and a Program for its state.
//
// Every answer that is not a success is an *Error, whose Code is stable. A call
// that is safe to repeat is repeated when the server cannot be reached or asks
// to come back later: reads, decisions (made once, however often they are sent)
// and everything that carries an Idempotency-Key. Nothing else is.
package client
