package web

import (
	"bytes"
	"io"
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
	type question struct {
		Text, To string
		Choices  []string
	}
	type field struct {
		Name, Title string
		Required    bool
	}
	type approval struct {
		ID, Kind, RunID, Agent, Tool, Args, Summary string
		Question                                    *question
		Form                                        []field
		CreatedAt, ExpiresAt                        time.Time
	}
	now := time.Date(2026, 3, 5, 2, 14, 0, 0, time.UTC)
	data := map[string]any{
		"Title": evil, "Namespace": evil, "Name": evil, "Role": evil, "Here": "approvals", "At": now, "More": true,
		"Approvals": []approval{{evil, "action", evil, evil, evil, evil, evil, nil, []field{{evil, evil, true}}, now, now},
			{evil, "question", evil, evil, evil, evil, evil, &question{evil, evil, []string{evil}}, nil, now, now}},
	}
	var b bytes.Buffer
	if err := Render(&b, "approvals", data); err != nil {
		t.Fatal(err)
	}
	checkHTML(t, b.String())
}

// tag matches a start tag; escaped text has no "<" and no ">".
var tag = regexp.MustCompile(`<([a-zA-Z][a-zA-Z0-9-]*)((?:\s[^<>]*)?)>`)

// attribute matches one attribute with its value.
var attribute = regexp.MustCompile(`\s([a-zA-Z-]+)="([^"]*)"`)

// checkHTML demands that a page has no script, no handler, no inline style and
// loads nothing from elsewhere.
func checkHTML(t *testing.T, page string) {
	t.Helper()
	tags := tag.FindAllStringSubmatch(page, -1)
	if len(tags) < 20 {
		t.Fatalf("the page has %d tags", len(tags))
	}
	for _, m := range tags {
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
