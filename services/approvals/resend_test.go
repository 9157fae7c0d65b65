package approvals_test

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/client"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// refusedNotice is a notice that its channel has refused.
func refusedNotice(t *testing.T) (*bench, *outside, events.NoticeID) {
	t.Helper()
	b := setup(t)
	o := newOutside(t)
	b.outsiders(o)
	o.next(says(`{"ok":false,"error":"invalid_blocks"}`))
	id := b.tell(events.Notice{Channel: "ops"})
	b.notice(id, "it is refused", inState("failed"))
	return b, o, id
}

// What failed is sent again, once for each time it is asked; what may have arrived
// only when whoever asks says that it may double.
func TestNotices_SentAgain(t *testing.T) {
	t.Parallel()
	b, o, id := refusedNotice(t)
	for who, want := range map[string]int{"": 401, "vic": 403, "ann": 403, "zoe": 404} {
		if _, err := b.as(who).ResendNotice(t.Context(), id, true); client.StatusOf(err) != want {
			t.Errorf("%q: %v, want %d", who, err, want)
		}
	}
	if n, err := b.as("opa").ResendNotice(t.Context(), id, false); err != nil || n.NoticeID != id || n.State != "due" || !strings.Contains(n.Problem, "opa") {
		t.Fatalf("%+v, %v", n, err)
	}
	if got := b.notice(id, "it is delivered", inState("delivered")); got.Attempts != 2 {
		t.Errorf("%d attempts, want 2", got.Attempts)
	}
	if _, err := b.as("opa").ResendNotice(t.Context(), id, true); client.StatusOf(err) != http.StatusConflict || !strings.Contains(err.Error(), "is delivered") {
		t.Errorf("what is delivered: %v", err)
	}
	if _, err := b.as("opa").ResendNotice(t.Context(), "nothing", true); client.StatusOf(err) != http.StatusNotFound {
		t.Errorf("what is none: %v", err)
	}
	if n := len(o.at(chatPost)); n != 2 {
		t.Errorf("%d messages, want 2", n)
	}

	o.next(status(500))
	id = b.tell(events.Notice{Channel: "ops"})
	b.notice(id, "nobody knows", inState("unknown"))
	if _, err := b.as("opa").ResendNotice(t.Context(), id, false); client.StatusOf(err) != http.StatusConflict || !strings.Contains(err.Error(), "may read it twice") {
		t.Errorf("without a confirmation: %v", err)
	}
	if n := len(o.at(chatPost)); n != 3 {
		t.Errorf("%d messages, want 3", n)
	}
	if _, err := b.as("opa").ResendNotice(t.Context(), id, true); err != nil {
		t.Error(err)
	}
	b.notice(id, "it is delivered", inState("delivered"))

	// Asked again while it waits, it stays as it is: it is no second message.
	id = b.tell(events.Notice{Channel: "night"})
	b.notice(id, "it waits for its channel", func(n client.Notice) bool { return n.State == "due" && n.Attempts == 1 })
	if n, err := b.as("opa").ResendNotice(t.Context(), id, false); err != nil || n.State != "due" || n.Attempts != 1 || strings.Contains(n.Problem, "opa") {
		t.Errorf("what is due: %+v, %v", n, err)
	}
}

// The button of the page System does what the API does, for the same people, and leads
// back to the page.
func TestNotices_SentAgainFromThePage(t *testing.T) {
	t.Parallel()
	b, o, id := refusedNotice(t)
	press := func(who string, id events.NoticeID, form url.Values) (int, string, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.url+"/ui/notices/"+string(id)+"/resend", strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Cookie", "holdfast_session="+who)
		req.Header.Set("Sec-Fetch-Site", "same-origin")
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, res.Header.Get("Location"), string(text)
	}
	for who, want := range map[string]int{"vic": 403, "ann": 403, "zoe": 404} {
		if status, _, _ := press(who, id, url.Values{}); status != want {
			t.Errorf("%s: %d, want %d", who, status, want)
		}
	}
	if n := b.notice(id, "it stays", inState("failed")); n.Attempts != 1 {
		t.Errorf("%d attempts by who may not", n.Attempts)
	}
	if status, to, text := press("opa", id, url.Values{}); status != http.StatusSeeOther || to != "/ui/system?resent=yes#notices" {
		t.Fatalf("%d to %q: %s", status, to, text)
	}
	b.notice(id, "it is delivered", inState("delivered"))

	o.next(status(500))
	id = b.tell(events.Notice{Channel: "ops"})
	b.notice(id, "nobody knows", inState("unknown"))
	if status, _, text := press("opa", id, url.Values{}); status != http.StatusConflict || !strings.Contains(text, "may read it twice") {
		t.Errorf("without a confirmation: %d %s", status, text)
	}
	if status, _, text := press("opa", id, url.Values{"may_double": {"yes"}}); status != http.StatusSeeOther {
		t.Errorf("with one: %d %s", status, text)
	}
	b.notice(id, "it is delivered", inState("delivered"))
}
