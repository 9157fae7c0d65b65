// Package follow lets many readers watch what happens: one tail of EVENTS per
// process, fanned out in memory. A run is followed through its history in
// Postgres, and the tail only says when to look; the feed of everything comes
// from the tail itself.
package follow
