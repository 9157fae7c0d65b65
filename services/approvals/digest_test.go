package approvals_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/approvals"
)

// A channel is told once a day what waits, whoever looks how often, and not at all when
// nothing waits.
func TestDigest_OnceADay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := newOutside(t)
	const hook = "  webhook: {url: %q, secrets: [{env: SECRET}]}\n"
	secret := map[string]string{"SECRET": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}
	b.book.apply(t, "ops", strings.Replace(hook, "%q", `"`+o.URL+`/ops"`, 1), secret)
	b.book.apply(t, "quiet", strings.Replace(hook, "%q", `"`+o.URL+`/quiet"`, 1), secret)
	now := time.Now().UTC()
	at := func(d time.Duration) *spec.Digest {
		return &spec.Digest{At: now.Add(d).Format("15:04"), TimeZone: "UTC"}
	}
	d := b.notices.NotifierDeps // of a notifier that does not look by itself
	d.DigestChannels = func(context.Context) ([]approvals.DigestChannel, error) {
		return []approvals.DigestChannel{
			{Namespace: "other", Name: "quiet", Digest: at(-time.Minute)}, // nothing waits there
			{Namespace: "default", Name: "ops", Digest: at(-time.Minute)},
			{Namespace: "default", Name: "quiet", Digest: at(3 * time.Hour)}, // later
		}, nil
	}
	notices := approvals.NewNotifier(d)
	look := func() {
		t.Helper()
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if err := notices.Digest(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
	b.ask(shopped("secret shop", "1"), ruled(events.DecisionRule{Deciders: []events.Deciders{{Groups: []string{"finance"}}}}))
	b.ask(shopped("secret shop", "2"))
	b.ask(toolOf("send_mail"))
	look()
	eventually(t, "the channel is told", func() bool { return len(o.at("/ops")) == 1 })
	b.ask()
	look()
	got := string(o.at("/ops")[0].body)
	for _, want := range []string{`"title":"3 things wait for people"`, `"reason":"digest"`, `"tool":"propose_price","count":2`, `"tool":"send_mail","count":1`} {
		if !strings.Contains(got, want) {
			t.Errorf("told %s; want %s", got, want)
		}
	}
	if strings.Contains(got, "secret shop") || strings.Contains(got, "24.90") || strings.Contains(got, "price/") {
		t.Errorf("arguments are told to everybody: %s", got)
	}
	if n := b.count("SELECT count(*) FROM approvals.notices WHERE reason = 'digest'"); n != 2 || len(o.at("/")) != 1 {
		t.Errorf("%d digests, %d messages; want one that was told and one of nothing", n, len(o.at("/")))
	}
	page, err := b.as("vic").Notices(t.Context(), client.NoticeFilter{Channel: "ops"}, client.PageRequest{})
	if err != nil || len(page.Items) != 1 || page.Items[0].Reason != events.NoticeDigest {
		t.Errorf("notices: %+v, %v", page.Items, err)
	}
}

func TestDigest_IsToldInGroups(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 29, 2, 0, 0, 0, time.UTC)
	m := approvals.Tell(events.Notice{Reason: events.NoticeDigest, Waiting: &events.WaitingDigest{Count: 40, Groups: []events.WaitingGroup{
		{Agent: "pricing\u202e", Tool: "propose_price", Count: 31, Oldest: at, NextExpiry: at.Add(time.Hour)}}}})
	if m.Title != "40 things wait for people" || m.Facts[0].Name != "pricing" || m.Facts[0].Value != "31 × propose_price, since 2026-11-29 02:00; the first expires 2026-11-29 03:00 UTC" || m.Facts[1].Value != "9" {
		t.Errorf("%+v", m)
	}
}
