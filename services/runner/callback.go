package runner

import "github.com/holdfast-run/holdfast/pkg/events"

// owesCallback reports whether the run has ended and the ledger has not said
// what became of posting that.
func (s *State) owesCallback() bool {
	return s.End != "" && s.Started.Callback != nil && s.Posted == nil
}

// callbackID is the call that posts the end: it hangs on the row of the end, as
// the calls of an answer hang on the answer's.
func (s *State) callbackID() events.CallID { return events.NewCallID(s.RunID, s.EndSeq, 0) }

// postEnd asks the ledger to post the run's end. Nothing of the end travels
// with the call: tools reads it from the run when it posts.
func (o *outbox) postEnd() {
	to := o.s.Started.Callback
	if to == nil {
		return
	}
	ref := o.s.Started.Ref
	args, err := events.Canonical(mustJSON(events.CallbackArgs{URL: to.URL, Kind: ref.Kind, Name: ref.Name}))
	if err != nil {
		panic("callback arguments: " + err.Error()) // text that the door has checked
	}
	id := o.s.callbackID()
	o.put(events.ToolSubject(events.PoolCallbacks, id), "call:"+string(id), events.TypeCallTool, string(id), events.CallTool{
		CallID: id, RunID: o.s.RunID, Namespace: o.s.Namespace, Tool: events.CallbackTool, ToolDigest: ref.Digest,
		Args: args, ArgsDigest: events.DigestOf(args), Key: events.CallbackKey(o.s.RunID, o.s.EndSeq),
	})
}
