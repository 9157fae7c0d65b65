package approvals

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// digestEvery is how often it is looked whether a digest is due.
const digestEvery = 20 * time.Second

// inboxPath is where people find the inbox.
const inboxPath = "/ui/approvals"

// DigestChannel is a channel that is told once a day what waits.
type DigestChannel struct {
	Namespace, Name string
	Digest          *spec.Digest
}

// Digests keeps which digest has been given.
type Digests interface {
	// Now is the database's clock.
	Now(ctx context.Context) (time.Time, error)
	// Digest stores the digest of a day unless it is stored, and reports whether people
	// are to be told: something waits, and this stored it. What waits now is in it;
	// a day on which nothing waits is stored as told.
	Digest(ctx context.Context, id events.NoticeID, namespace, channel string) (told bool, err error)
}

// DigestID is the one digest of a channel for a day.
func DigestID(namespace, channel, day string) events.NoticeID {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q", namespace, channel))
	return events.NoticeID("digest-" + hex.EncodeToString(sum[:12]) + "-" + day)
}

// digests gives digests that are due until ctx ends.
func (x *Notifier) digests(ctx context.Context) {
	if x.Digests == nil || x.DigestChannels == nil {
		return
	}
	tick := time.NewTicker(digestEvery)
	defer tick.Stop()
	for {
		if err := x.Digest(ctx); err != nil && ctx.Err() == nil {
			x.Log.WarnContext(ctx, "digests are late", telemetry.KeyErr, err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Digest gives every digest that is due by the database's clock and was not given.
func (x *Notifier) Digest(ctx context.Context) error {
	channels, err := x.DigestChannels(ctx)
	if err != nil || len(channels) == 0 {
		return err
	}
	now, err := x.Digests.Now(ctx)
	if err != nil {
		return err
	}
	for _, c := range channels {
		day, due := c.Digest.Due(now)
		if !due {
			continue
		}
		told, err := x.Digests.Digest(ctx, DigestID(c.Namespace, c.Name, day), c.Namespace, c.Name)
		if err != nil {
			return fmt.Errorf("digest to channel %s: %w", c.Name, err)
		}
		if told {
			x.Kick()
		}
	}
	return nil
}

// tellDigest says what waits, in groups.
func tellDigest(m *Message, w *events.WaitingDigest) {
	if w == nil {
		return
	}
	m.Title = fmt.Sprintf("%d things wait for people", w.Count)
	if w.Count == 1 {
		m.Title = "1 thing waits for people"
	}
	m.Hint = "holdfast approvals list --group-by similarity"
	shown := 0
	for _, g := range w.Groups {
		m.Facts = append(m.Facts, Shown{clean(g.Agent, 60, false), clean(fmt.Sprintf("%d × %s, since %s; the first expires %s",
			g.Count, g.Tool, g.Oldest.UTC().Format("2006-01-02 15:04"), g.NextExpiry.UTC().Format("2006-01-02 15:04 UTC")), maxShown, false)})
		shown += g.Count
	}
	if shown < w.Count {
		m.Facts = append(m.Facts, Shown{"others", fmt.Sprint(w.Count - shown)})
	}
}
