package telemetry

// Keys of log attributes and span attributes. Use these and no spelling of your
// own, so that one search finds a run in every service's log.
const (
	KeyRunID      = "run_id"
	KeyCallID     = "call_id"
	KeyApprovalID = "approval_id"
	KeyAgent      = "agent"
	KeyTool       = "tool"
	KeyNamespace  = "namespace"
	KeyStream     = "stream"
	KeyConsumer   = "consumer"
	KeySeq        = "seq"
	KeyAttempt    = "attempt"
	KeyEpoch      = "epoch"
	KeyEvent      = "event"
	KeyMessageID  = "message_id"
	KeyService    = "service"
	KeyWorker     = "worker"
	KeyPrincipal  = "principal"
	KeyDuration   = "duration"
	KeyCode       = "code"
	KeyErr        = "err"
)
