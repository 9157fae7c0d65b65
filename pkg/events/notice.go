package events

import "time"

// ApprovalNotify is the <what> of a notice.
const ApprovalNotify = "notify"

// Reasons of a notice.
const (
	NoticeCompleted       = "completed"
	NoticeFailed          = "failed"
	NoticeExpired         = "expired"
	NoticeNeedsAttention  = "needs_attention"
	NoticeBudget          = "budget"
	NoticeApprovalExpired = "approval_expired"
)

// NoticeApproval tells people that something waits for them. No definition names it:
// it is told where they are asked.
const NoticeApproval = "approval"

// NoticeDigest tells people once a day what waits for them. It is of a channel, and no
// run's.
const NoticeDigest = "digest"

// NoticeReasons lists every reason that a definition can name.
var NoticeReasons = []string{NoticeCompleted, NoticeFailed, NoticeExpired, NoticeNeedsAttention, NoticeBudget, NoticeApprovalExpired}

// NoticeID names one notice: "<run id>-notice-<reason>" or "alert-<hash>". It is
// a token.
type NoticeID string

// RunNotice is the one notice of a run for a reason.
func RunNotice(run RunID, reason string) NoticeID {
	return NoticeID(string(run) + "-notice-" + reason)
}

// Notice tells people once that something happened. ID: "notify:<notice id>".
type Notice struct {
	NoticeID  NoticeID `json:"notice_id"`
	Namespace string   `json:"namespace"`
	Channel   string   `json:"channel"` // name of a Channel, as it is when the notice is sent
	Reason    string   `json:"reason"`  // NoticeFailed ...
	RunID     RunID    `json:"run_id,omitempty"`
	Kind      string   `json:"kind,omitempty"` // of what the run executes: KindAgent or KindFlow
	Name      string   `json:"name,omitempty"`
	Error     *Problem `json:"error,omitempty"` // with NoticeFailed, NoticeExpired and NoticeNeedsAttention
	// ApprovalID and Tool are of the question that nobody answered, with
	// NoticeApprovalExpired.
	ApprovalID ApprovalID   `json:"approval_id,omitempty"`
	Tool       string       `json:"tool,omitempty"`
	Alert      *BudgetAlert `json:"alert,omitempty"` // with NoticeBudget
	// Waiting is what waits, with NoticeDigest.
	Waiting *WaitingDigest `json:"waiting,omitempty"`
	At      time.Time      `json:"at"`
}

// WaitingDigest is what waits for people in a namespace.
type WaitingDigest struct {
	Count  int            `json:"count"`
	Groups []WaitingGroup `json:"groups"` // the largest
}

// WaitingGroup is what waits of one agent or flow about one tool.
type WaitingGroup struct {
	Agent      string    `json:"agent"`
	Tool       string    `json:"tool"`
	Count      int       `json:"count"`
	Oldest     time.Time `json:"oldest"`
	NextExpiry time.Time `json:"next_expiry"`
}

// NoticeSubject is hf.approval.<notice id>.notify.
func NoticeSubject(id NoticeID) string { return ApprovalSubject(ApprovalID(id), ApprovalNotify) }
