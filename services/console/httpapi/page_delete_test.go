package httpapi_test

import (
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/internal/door/doortest"
)

// The buttons of the pages ask before anything is deleted, one run or many, and delete
// only for an operator who pressed the second button in this console.
func TestPages_DeleteAsksFirst(t *testing.T) {
	t.Parallel()
	r := setup(t)
	root := r.ended(1, "completed", 0)
	child, lone, open := r.ended(2, "failed", 1), r.ended(3, "cancelled", 0), r.ended(4, "waiting", 0)
	orders := func() int64 { return r.number("SELECT count(*) FROM console.deletions") }
	press := func(token, form string, header ...string) (int, string, string) {
		t.Helper()
		header = append(header, "Cookie", door.SessionCookie+"="+token, "Content-Type", "application/x-www-form-urlencoded")
		status, h, raw := r.do("POST", "/ui/runs/delete", "", form, header...)
		return status, h.Get("Location"), raw
	}
	operator, here := doortest.Token(authn.Operator), []string{"Sec-Fetch-Site", "same-origin"}

	if _, _, raw := r.do("GET", "/", operator, ""); !strings.Contains(raw, `name="do" value="delete"`) {
		t.Error("the list does not offer to delete what is chosen")
	}
	// Who may, sees the button where the run can go.
	for path, want := range map[string]int{"/ui/runs/" + root: 1, "/ui/runs/" + child: 0, "/ui/runs/" + open: 0} {
		_, _, raw := r.do("GET", path, operator, "")
		if n := strings.Count(raw, `name="id" value="`); n != want || strings.Contains(raw, `action="/ui/runs/delete"`) != (want > 0) {
			t.Errorf("%s offers %d runs, want %d", path, n, want)
		}
		if _, _, raw := r.do("GET", path, doortest.Token(authn.Viewer), ""); strings.Contains(raw, "/ui/runs/delete") {
			t.Errorf("%s offers it to a viewer", path)
		}
	}
	all := "id=" + root + "&id=" + lone + "&id=" + open + "&id=" + child
	status, _, raw := press(operator, all, here...)
	if status != 200 || strings.Count(raw, `name="id" value="`) != 2 || !strings.Contains(raw, "Delete 3 runs for good") || !strings.Contains(raw, "is waiting; cancel it first") || !strings.Contains(raw, "delete run "+root) {
		t.Errorf("the question: %d %s", status, raw)
	}
	sure := "sure=yes&id=" + root + "&id=" + lone
	for name, tc := range map[string]struct {
		token, form string
		header      []string
		want        int
	}{
		"another site":     {operator, sure, []string{"Sec-Fetch-Site", "cross-site"}, 403},
		"a viewer":         {doortest.Token(authn.Viewer), sure, here, 403},
		"an approver":      {doortest.Token(authn.Approver), sure, here, 403},
		"no run":           {operator, "sure=yes", here, 422},
		"too many":         {operator, "sure=yes" + manyIDs(51), here, 422},
		"no form":          {operator, "id=%zz", here, 400},
		"only a question":  {operator, "sure=no&id=" + lone, here, 200},
		"no id of a run":   {operator, "sure=yes&id=%3Cscript%3E", here, 200},
		"a run not there":  {operator, "sure=yes&id=" + idOf(99), here, 200},
		"what has not end": {operator, "sure=yes&id=" + open, here, 200},
	} {
		if status, _, raw := press(tc.token, tc.form, tc.header...); status != tc.want || strings.Contains(raw, "<script>") {
			t.Errorf("%s: %d, want %d\n%s", name, status, tc.want, raw)
		}
	}
	if n := orders(); n != 0 {
		t.Fatalf("%d runs were ordered to be deleted before anybody said yes", n)
	}
	status, to, raw := press(operator, sure, here...)
	if status != 303 || to != "/?deleted=3" || orders() != 2 {
		t.Errorf("the second button: %d to %s, %d orders\n%s", status, to, orders(), raw)
	}
	if n := r.number(`SELECT count(*) FROM console.v_deletions WHERE principal = 'operator' AND reason = 'from the console'`); n != 2 {
		t.Errorf("%d orders say whose they are", n)
	}
	if _, _, raw := r.do("GET", to, operator, ""); !strings.Contains(raw, "3 runs are being deleted") {
		t.Error("nobody is told")
	}
	r.deleted()
	// Pressed twice, it has been done; one that stays is said beside it.
	if status, to, _ := press(operator, sure, here...); status != 303 || to != "/?deleted=0" {
		t.Errorf("pressed twice: %d to %s", status, to)
	}
	if status, _, raw := press(operator, sure+"&id="+open, here...); status != 200 || !strings.Contains(raw, "is waiting; cancel it first") {
		t.Errorf("one stays: %d\n%s", status, raw)
	}
}

func manyIDs(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("&id=" + idOf(1000+i))
	}
	return b.String()
}
