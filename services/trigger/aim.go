package trigger

import "sync"

// Aims remembers what each webhook started when it was last read, so that whoever
// reads it again asks for both by one query. What is remembered is what to ask
// for, never an answer. The zero value is ready, and safe for concurrent use.
type Aims struct{ last sync.Map } // HookName to aim

type aim struct{ kind, name string }

// Of is what a webhook started last; ok is false when nobody knows.
func (a *Aims) Of(namespace, webhook string) (kind, name string, ok bool) {
	last, ok := a.last.Load(HookName{namespace, webhook})
	if !ok {
		return "", "", false
	}
	x, ok := last.(aim)
	return x.kind, x.name, ok
}

// Note remembers what w starts.
func (a *Aims) Note(w Webhook) {
	if kind, name, ok := a.Of(w.Namespace, w.Name); w.Target != "" && (!ok || kind != w.Kind || name != w.Target) {
		a.last.Store(HookName{w.Namespace, w.Name}, aim{w.Kind, w.Target})
	}
}
