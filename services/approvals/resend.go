package approvals

import (
	"context"
	"fmt"

	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// Resend asks to send a notice again that is not known to be delivered.
type Resend struct {
	NoticeID  events.NoticeID
	Namespace string
	By        string
	// MayDouble says that whoever asks knows that people may read it twice: without
	// it a notice that may have arrived stays as it is.
	MayDouble bool
}

// Resender makes a failed notice due again, or an unknown one when that is said.
type Resender interface {
	// Resend reports the notice as it is afterwards, and whether this changed it;
	// ErrNotFound.
	Resend(ctx context.Context, r Resend) (n Notice, changed bool, err error)
}

// NotResent is why a notice is not sent again.
type NotResent struct{ Notice Notice }

// Error says what state it is in, and what to do next.
func (e *NotResent) Error() string {
	n := e.Notice
	if n.State == NoticeUnknown {
		return fmt.Sprintf("notice %s may have been shown, and people may read it twice: look in channel %s, then confirm that it may double", n.NoticeID, n.Channel)
	}
	return fmt.Sprintf("notice %s is %s; only what is failed or unknown is sent again", n.NoticeID, n.State)
}

// Resend sends a notice again: *NotResent, ErrNotFound. One that is on its way
// already is left so, and that is no error: asked twice, it is sent once. One that
// is older than a day gets a single attempt.
func (s *Service) Resend(ctx context.Context, r Resend) (Notice, error) {
	n, changed, err := s.resends.Resend(ctx, r)
	if err != nil {
		return Notice{}, err
	}
	if changed {
		s.notifier.Kick()
		s.log.InfoContext(ctx, "a notice is sent again", "notice", n.NoticeID, "channel", n.Channel, telemetry.KeyPrincipal, r.By, "may_double", r.MayDouble)
	} else if n.State != NoticeDue && n.State != NoticeSending {
		return Notice{}, &NotResent{Notice: n}
	}
	return n, nil
}
