// Package lab runs every service as a process of its own and keeps what stands
// around them, for programs that break things and judge from outside: the demo and
// the chaos suite.
//
// A Supervisor starts processes, signals them and remembers each death; Services is
// how Holdfast's own are run. An Oracle is the other side of a tool: a pricing API
// that writes every request to a file of its own before it answers, and a Tally is
// what that file says about effects per business key.
package lab
