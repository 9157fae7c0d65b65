// Package chaos tries out what durability is promised: it runs every service as a
// process of its own, kills them at every place that the code names, breaks what they
// stand on, and counts from outside what became of the work.
//
// Work is a scene: a signed webhook, an agent, tools that write, a person who says yes,
// a flow, a schedule, a signal, pauses, a deletion. The other side is an Oracle of
// internal/lab: it writes down every request before it answers, and what it has
// counts. A scene holds when every run completes, every business key took effect once,
// and what nobody could know was put before a person, who looks at the other side.
//
// It does not look into the services. It reads the HTTP API, the read-only views, the
// oracle's file and what reached the scripted model.
package chaos
