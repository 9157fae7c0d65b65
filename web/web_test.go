package web

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"
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
	type approval struct {
		ID, Kind, RunID, Agent, Tool, Args, Summary string
		CreatedAt, ExpiresAt                        time.Time
	}
	now := time.Date(2026, 3, 5, 2, 14, 0, 0, time.UTC)
	data := map[string]any{
		"Title": evil, "Namespace": evil, "Name": evil, "Role": evil, "Here": "approvals", "At": now, "More": true,
		"Approvals": []approval{{evil, "action", evil, evil, evil, evil, evil, now, now}},
	}
	var b bytes.Buffer
	if err := Render(&b, "approvals", data); err != nil {
		t.Fatal(err)
	}
	checkHTML(t, &b)
}

// checkHTML demands that a page has no script, no handler, no inline style and
// loads nothing from elsewhere.
func checkHTML(t *testing.T, r io.Reader) {
	t.Helper()
	z := html.NewTokenizer(r)
	for {
		switch z.Next() {
		case html.ErrorToken:
			if !errors.Is(z.Err(), io.EOF) {
				t.Fatal(z.Err())
			}
			return
		case html.StartTagToken, html.SelfClosingTagToken:
			tok := z.Token()
			if tok.Data == "script" || tok.Data == "style" || tok.Data == "img" {
				t.Errorf("the page has <%s>", tok.Data)
			}
			for _, a := range tok.Attr {
				if strings.HasPrefix(a.Key, "on") || a.Key == "style" {
					t.Errorf("<%s> has %s", tok.Data, a.Key)
				}
				if (a.Key == "href" || a.Key == "src" || a.Key == "action") && !strings.HasPrefix(a.Val, "/") && !strings.HasPrefix(a.Val, "#") {
					t.Errorf("<%s> leads to %s", tok.Data, a.Val)
				}
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
