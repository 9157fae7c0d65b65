package config_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/internal/config"
)

func TestSecret_NeverPrintsItself(t *testing.T) {
	t.Parallel()
	const value = "hunter2"
	type settings struct {
		Name  string
		Token config.Secret
	}
	s := settings{Name: "x", Token: value}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
		fmt.Fprintf(&out, verb+"\n", s.Token)
		fmt.Fprintf(&out, verb+"\n", s)
		fmt.Fprintf(&out, verb+"\n", &s)
	}
	j, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	out.Write(j)
	for _, h := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(h).Info("hello", "token", s.Token, "settings", s)
	}
	text := out.String()
	if strings.Contains(text, value) || strings.Contains(text, fmt.Sprintf("%x", value)) {
		t.Errorf("the secret came out:\n%s", text)
	}
	if !strings.Contains(text, "[redacted]") {
		t.Errorf("nothing says that there is a secret:\n%s", text)
	}
	if got := s.Token.Reveal(); got != value {
		t.Errorf("Reveal = %q", got)
	}
	if got := config.Secret("").String(); got != "" {
		t.Errorf("an empty secret prints %q: an operator could not see that it is missing", got)
	}
}

func TestReadSecret(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	got, err := config.ReadSecret(write("token", " a b \r\n"))
	if err != nil || got.Reveal() != " a b " {
		t.Errorf("ReadSecret = %q, %v; want the text without its line break", got.Reveal(), err)
	}
	if _, err := config.ReadSecret(write("empty", "\n")); err == nil {
		t.Error("an empty file was taken for a secret")
	}
	if _, err := config.ReadSecret(filepath.Join(dir, "absent")); err == nil {
		t.Error("an absent file was taken for a secret")
	}
}

func TestRedactURL(t *testing.T) {
	t.Parallel()
	cases := map[string]struct{ in, want string }{
		"password in the user part":   {"postgres://app:pw@db:5432/x?sslmode=disable", "postgres://redacted@db:5432/x?sslmode=disable"},
		"user without password stays": {"postgres://app@db/x", "postgres://app@db/x"},
		"password in the query":       {"postgres:///x?host=/tmp&password=pw", "postgres:///x?host=%2Ftmp&password=redacted"},
		"a NATS token is a user":      {"nats://s3cret@n:4222", "nats://redacted@n:4222"},
		"keyword form is hidden":      {"host=db password=pw", "[redacted]"},
		"nothing stays nothing":       {"", ""},
		"each of several servers":     {"nats://a:b@x:1,nats://c:d@y:2", "nats://redacted@x:1,nats://redacted@y:2"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := config.RedactURL(config.Secret(tc.in)); got != tc.want {
				t.Errorf("RedactURL(%q) = %q, want %q", tc.in, got, tc.want)
			}
		})
	}
}
