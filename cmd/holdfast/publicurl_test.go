package main

import (
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/internal/authn"
)

func TestPublicURL(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "", "https://holdfast.example.com": "", "http://10.0.0.1:8787/base/": "",
		"holdfast.example.com": "absolute", "ftp://x/": "absolute", "https://": "absolute", "/base": "absolute",
		"https://user:pw@x/": "no user", "https://x/?a=1": "no query", "https://x/#a": "no fragment", "https://x?": "no query", "https:x": "absolute",
	} {
		switch err := checkPublicURL(text); {
		case want == "" && err != nil, want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if (&process{}).publicURL("") != nil {
		t.Error("a server without the setting claims to be reachable")
	}
	if u := (&process{}).publicURL("https://x/base/"); u() != "https://x/base" {
		t.Errorf("as set: %q", u())
	}
	dev := &process{dev: &authn.Principal{}}
	u := dev.publicURL("")
	if u() != "" {
		t.Errorf("before it listens: %q", u())
	}
	if dev.reached.Store("http://127.0.0.1:8787"); u() != "http://127.0.0.1:8787" {
		t.Errorf("once it listens: %q", u())
	}
}
