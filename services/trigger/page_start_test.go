package trigger_test

import (
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door/doortest"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// form sends a page's form and returns status, where it leads and the page.
func (r *replica) form(token, method, path string, values url.Values) (int, string, string) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.address()+path, strings.NewReader(values.Encode()))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Accept", "text/html")
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := (&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return res.StatusCode, res.Header.Get("Location"), string(raw)
}

var formKey = regexp.MustCompile(`name="key" value="([^"]+)"`)

func TestStartPage_TakesWhatTheAPITakes(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r := w.start(t)
	operator := doortest.Token(authn.Operator)
	const path = "/ui/start/agent/check"
	open := func(path string, want ...string) string {
		t.Helper()
		status, _, page := r.form(operator, "GET", path, nil)
		key := formKey.FindStringSubmatch(page)
		if status != 200 || key == nil {
			t.Fatalf("%s: %d %s", path, status, page)
		}
		for _, s := range want {
			if !strings.Contains(page, s) {
				t.Errorf("%s does not have %s", path, s)
			}
		}
		return key[1]
	}
	key := open(path, `name="input.shop"`, `name="input.price"`, `inputmode="decimal"`, "Start check")

	// What is wrong stands beside its field, and what was typed stays; nothing starts.
	evil := `"><script>alert(1)</script>`
	status, _, page := r.form(operator, "POST", path, url.Values{"key": {key}, "input.shop": {evil}, "input.price": {"12,5"}, "labels": {"no label"}, "deadline": {"soon"}})
	for _, want := range []string{"Nothing was started", "is not a number like 12.5", `value="12,5"`, "line 1 is not key=value", `value="soon"`, "&lt;script&gt;alert(1)", `aria-invalid="true"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not have %s", want)
		}
	}
	if status != 422 || strings.Contains(page, "<script>alert") {
		t.Errorf("%d, or the page obeys what was typed", status)
	}
	if status, _, page := r.form(operator, "POST", path, url.Values{"key": {key}, "input.shop": {"A"}, "deadline": {"soon"}}); status != 422 || !strings.Contains(page, "deadline") {
		t.Errorf("a bad deadline: %d", status)
	}
	if status, _, page := r.form(operator, "POST", path, url.Values{"key": {key}, "input.shop": {"A"}, "input.price": {"1"}, "labels": {"no label"}}); status != 422 || !strings.Contains(page, "line 1 is not key=value") {
		t.Errorf("only a label is wrong: %d", status)
	}
	if n := w.count(t, "trigger.deliveries"); n != 0 {
		t.Fatalf("%d starts of forms that were refused", n)
	}

	// The same form twice is one run; its digits are as they were typed.
	good := url.Values{"key": {key}, "input.shop": {evil}, "input.price": {"9007199254740993.10"}, "labels": {"customer=42\r\nof = shop A\r\n"}, "priority": {"batch"}}
	status, where, page := r.form(operator, "POST", path, good)
	run, ok := strings.CutPrefix(where, "/ui/runs/")
	if status != 303 || !ok || !events.RunID(run).Valid() {
		t.Fatalf("%d %s %s", status, where, page)
	}
	if status, again, _ := r.form(operator, "POST", path, good); status != 303 || again != where {
		t.Errorf("the same form again: %d %s, want %s", status, again, where)
	}
	good.Set("input.price", "1")
	if status, _, page := r.form(operator, "POST", path, good); status != 422 || !strings.Contains(page, run) {
		t.Errorf("another input with the key of a form that was used: %d", status)
	}
	start := w.collect(t, true).exactly(t, 1)[0]
	if string(start.Input) != `{"price":9007199254740993.10,"shop":"\"><script>alert(1)</script>"}` && string(start.Input) != `{"shop":"\"><script>alert(1)</script>","price":9007199254740993.10}` {
		t.Errorf("input %s", start.Input)
	}
	if start.Principal != "operator" || start.Labels["customer"] != "42" || start.Labels["of"] != "shop A" || start.Priority != "batch" {
		t.Errorf("start %+v", start)
	}

	// What the form does not know the schema still refuses, at the field; JSON is taken as it is.
	jsonKey := open(path+"?as=json", `name="input"`, `name="as" value="json"`)
	if status, _, page := r.form(operator, "POST", path, url.Values{"key": {jsonKey}, "as": {"json"}, "input": {`{"shop":7}`}}); status != 422 || !strings.Contains(page, "shop got number, want string") || !strings.Contains(page, `aria-invalid="true"`) || !strings.Contains(page, `{&#34;shop&#34;:7}`) {
		t.Errorf("JSON that does not fit: %d %s", status, page)
	}
	if status, where, page := r.form(operator, "POST", path, url.Values{"key": {jsonKey}, "as": {"json"}, "input": {`{"shop":"B"}`}}); status != 303 || where == "" {
		t.Errorf("JSON that fits: %d %s", status, page)
	}
	if open("/ui/start/flow/night", `name="input"`); w.count(t, "trigger.deliveries") != 2 {
		t.Error("there are not two starts")
	}

	for path, want := range map[string]int{"/ui/start/agent/nobody": 404, "/ui/start/tool/check": 404, "/ui/start/agent/%3Cb%3E": 404} {
		if status, _, _ := r.form(operator, "GET", path, nil); status != want {
			t.Errorf("GET %s: %d, want %d", path, status, want)
		}
	}
	if status, _, _ := r.form(doortest.Token(authn.Viewer), "GET", path, nil); status != 403 {
		t.Errorf("a viewer gets the form: %d", status)
	}
	if status, _, _ := r.form(doortest.TokenIn("other", authn.Operator), "GET", path, nil); status != 404 {
		t.Errorf("another namespace gets the form: %d", status)
	}
	if status, _, _ := r.form(operator, "POST", path, url.Values{"input.shop": {"A"}}); status != 400 {
		t.Errorf("a form without its key: %d", status)
	}
}
