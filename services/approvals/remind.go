package approvals

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/internal/failpoint"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// AuditReminded is the audit's row of a reminder.
const AuditReminded = "reminded"

// maxReminders is how often people are told of one request again: as often as a tool
// and an agent may say together.
const maxReminders = 20

// validReminders reports whether ms are times after the ask, in ascending order.
func validReminders(ms []int64) bool {
	before := int64(0)
	for _, m := range ms {
		if m <= before || m > maxPeriod.Milliseconds() {
			return false
		}
		before = m
	}
	return len(ms) <= maxReminders
}

// ReminderGaps are the times between an ask and its reminders, and between those, in
// milliseconds, when it is asked at now. What would come when the request has ended by
// itself is none. It is pure.
func ReminderGaps(rule *events.DecisionRule, expiresAfter time.Duration, now time.Time) []int64 {
	var gaps []int64
	if rule == nil {
		return nil
	}
	before := int64(0)
	for _, ms := range rule.RemindMs {
		if ms < expiresAfter.Milliseconds() || rule.AtExpiry == events.AtExpiryKeep {
			at := until(rule, now, time.Duration(ms)*time.Millisecond).Milliseconds()
			gaps, before = append(gaps, at-before), at
		}
	}
	return gaps
}

// Remind stores every reminder whose time has come.
func (s *Service) Remind(ctx context.Context) error {
	for {
		n, err := s.decider.Remind(ctx, sweepBatch)
		if err != nil {
			return fmt.Errorf("remind of approvals: %w", err)
		}
		if n > 0 {
			if err := failpoint.Hit("approvals.reminded", ""); err != nil {
				return err
			}
			s.notifier.Kick()
		}
		if n < sweepBatch {
			return nil
		}
	}
}

// reminds reports whether n, about a request, is a reminder.
func reminds(n Notice) bool {
	return strings.HasPrefix(string(n.NoticeID), string(n.ApprovalID)+"-remind-")
}

// tellAgain makes of how r is told that it was told before: as a reminder, or because
// others did not decide.
func tellAgain(m *Message, r Request, as string) {
	m.Title = Visible(as+": "+r.Title(), maxTitle)
	m.Facts = append(m.Facts, Shown{"waits since", r.CreatedAt.UTC().Format("2006-01-02 15:04 UTC")})
}
