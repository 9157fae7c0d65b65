package web

import (
	"bytes"
	"io"
	"io/fs"
	"maps"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestShow_ObeysNothing(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain\ttext\n":          "plain\ttext\n",
		"a\r\nb":                 "a\nb",
		"a\x00b\x1b[31m":         "a[U+0000]b[U+001B][31m",
		"abc\u202edcba":          "abc[U+202E]dcba",
		"zero\u200bwidth\u2028x": "zero[U+200B]width[U+2028]x",
		"größer ✓":               "größer ✓",
	} {
		if got := Show(in); got != want {
			t.Errorf("Show(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestPages_EscapeEverythingAndNeedNoScript(t *testing.T) {
	t.Parallel()
	evil := `"><script>alert(1)</script><img src=x onerror=alert(1)>`
	now := time.Date(2026, 3, 5, 2, 14, 0, 0, time.UTC)
	type span struct{ Action, Label string }
	type choice struct{ Action, Label, Style string }
	type change struct{ Path, From, To string }
	type done struct {
		ID, Title, Text string
		OK              bool
	}
	item := map[string]any{"ID": evil, "Digest": evil, "Title": evil, "Because": evil, "Args": evil, "Key": evil, "RunID": evil, "May": true, "Tick": true, "Hidden": false,
		"Deciders": evil, "MayNot": evil, "Votes": evil, "Deferred": evil, "CreatedAt": now, "ExpiresAt": now, "RemindAt": now, "NeedsComment": true}
	hidden := map[string]any{"ID": evil, "Title": evil, "Because": evil, "RunID": evil, "Hidden": true, "Tick": false, "May": false, "Deciders": evil, "MayNot": evil, "Votes": "", "Deferred": "", "CreatedAt": now, "ExpiresAt": now, "RemindAt": now, "Args": "", "Key": "", "Digest": "", "NeedsComment": false}
	frame := map[string]any{"Title": evil, "Namespace": evil, "Name": evil, "Role": evil, "Here": "approvals", "At": now}
	group := func(id string) map[string]any {
		return map[string]any{"ID": id, "Title": evil, "Count": 3, "Oldest": now, "Expiry": now, "Items": []any{item, hidden, item}, "More": "/ui/approvals?group=x&by=y", "Proposal": evil, "Approved": 7, "Ticks": true, "NeedsComment": true, "Spans": []span{{evil, evil}}}
	}
	inbox := map[string]any{"By": evil, "Group": evil, "Deferred": false, "Groups": []any{group("g0"), group("g1")}, "Next": "/ui/approvals?by=x&cursor=y", "Done": []done{{evil, evil, evil, false}, {evil, evil, evil, true}}, "Problem": evil}
	type input struct {
		Name, Title, Hint, Value string
		Options                  []string
		Long, Number, Required   bool
	}
	one := map[string]any{"Form": []input{{evil, evil, evil, evil, []string{evil}, false, false, true}, {evil, evil, evil, evil, nil, true, false, false}, {evil, evil, evil, evil, nil, false, true, false}}, "Item": item, "Kind": "action", "State": "pending", "Tool": evil, "Agent": evil, "Requester": evil, "Labels": map[string]string{evil: evil}, "Ended": evil, "Open": true, "Comment": evil,
		"Message": evil, "Problem": evil, "Question": evil, "To": evil, "Schema": evil, "Choices": []choice{{evil, evil, "primary"}}, "Answers": true, "Results": false, "Changes": []change{{evil, evil, evil}}, "Typed": evil,
		"EditText": evil, "EditArgs": "", "EditDigest": evil, "EditTitle": evil, "Spans": []span{{evil, evil}}}
	confirm := maps.Clone(one)
	confirm["EditArgs"] = evil
	for _, tc := range []struct {
		name string
		data map[string]any
	}{{"approvals", inbox}, {"approval", one}, {"approval", confirm}} {
		maps.Copy(tc.data, frame)
		var b bytes.Buffer
		if err := Render(&b, tc.name, tc.data); err != nil {
			t.Fatal(err)
		}
		checkHTML(t, b.String())
		checkControls(t, b.String())
	}
}

// checkControls demands that whoever uses a keyboard or hears the page reaches and knows
// everything that can be filled in: each control has a label of its own, each id is
// there once, and nothing takes itself out of the order of the page.
func checkControls(t *testing.T, page string) {
	t.Helper()
	ids, labels := map[string]int{}, map[string]bool{}
	for _, m := range tag.FindAllStringSubmatch(page, -1) {
		for _, a := range attribute.FindAllStringSubmatch(m[2], -1) {
			switch {
			case a[1] == "id":
				ids[a[2]]++
			case a[1] == "for":
				labels[a[2]] = true
			case a[1] == "tabindex" && m[1] != "main":
				t.Errorf("<%s> has a tabindex", m[1])
			}
		}
	}
	for id, n := range ids {
		if n > 1 {
			t.Errorf("the id %q is there %d times", id, n)
		}
	}
	controls := 0
	for _, m := range tag.FindAllStringSubmatch(page, -1) {
		if (m[1] != "input" && m[1] != "textarea" && m[1] != "select") || strings.Contains(m[2], `type="hidden"`) {
			continue
		}
		controls++
		id := ""
		for _, a := range attribute.FindAllStringSubmatch(m[2], -1) {
			if a[1] == "id" {
				id = a[2]
			}
		}
		if !labels[id] {
			t.Errorf("<%s%s> has no label", m[1], m[2])
		}
	}
	if controls == 0 {
		t.Error("the page has nothing to fill in")
	}
}

// tag matches a start tag; escaped text has no "<" and no ">".
var tag = regexp.MustCompile(`<([a-zA-Z][a-zA-Z0-9-]*)((?:\s[^<>]*)?)>`)

// attribute matches one attribute with its value.
var attribute = regexp.MustCompile(`\s([a-zA-Z-]+)="([^"]*)"`)

// checkHTML demands that a page has no script but live.js, no handler, no inline style and
// loads nothing from elsewhere.
func checkHTML(t *testing.T, page string) {
	t.Helper()
	tags := tag.FindAllStringSubmatch(page, -1)
	if len(tags) < 20 {
		t.Fatalf("the page has %d tags", len(tags))
	}
	for _, m := range tags {
		if m[1] == "script" && m[2] == ` src="/ui/live.js" defer` {
			continue
		}
		if m[1] == "script" || m[1] == "style" || m[1] == "img" {
			t.Errorf("the page has <%s>", m[1])
		}
		for _, a := range attribute.FindAllStringSubmatch(m[2], -1) {
			if strings.HasPrefix(a[1], "on") || a[1] == "style" {
				t.Errorf("<%s> has %s", m[1], a[1])
			}
			if (a[1] == "href" || a[1] == "src" || a[1] == "action") && !strings.HasPrefix(a[2], "/") && !strings.HasPrefix(a[2], "#") {
				t.Errorf("<%s> leads to %s", m[1], a[2])
			}
		}
	}
}

// A link's query is written out in the template or the whole link is one value: a
// value that is the query as a whole would lose its & and its =.
func TestPages_NoValueIsAWholeQuery(t *testing.T) {
	t.Parallel()
	files, err := fs.Glob(templates, "templates/*.html")
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := templates.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, bad := range regexp.MustCompile(`(href|action)="[^"]*\?\{\{[^"}]*\}\}"`).FindAllString(string(text), -1) {
			if !strings.Contains(bad, "{{if ") && !strings.Contains(bad, "{{range ") {
				t.Errorf("%s has %s: make the link in Go", file, bad)
			}
		}
	}
}

func TestRender_UnknownPage(t *testing.T) {
	t.Parallel()
	if err := Render(io.Discard, "nope", nil); err == nil {
		t.Error("an unknown page was rendered")
	}
}

func TestCSS_LoadsNothing(t *testing.T) {
	t.Parallel()
	if len(CSS()) < 1000 || bytes.Contains(CSS(), []byte("@import")) || bytes.Contains(CSS(), []byte("http:")) || bytes.Contains(CSS(), []byte("https:")) {
		t.Error("the style sheet is empty or loads something")
	}
}
