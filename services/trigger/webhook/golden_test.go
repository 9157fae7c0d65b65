package webhook

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/trigger"
)

var update = flag.Bool("update", false, "rewrite the expected part of testdata")

const separator = "\n----------\n"

// example is a file of testdata: the webhook's settings, a raw request, and the
// event or error that follows.
type example struct {
	check   trigger.Check
	request trigger.Request
	given   []byte // everything before the expectation
	want    string
	// open says that the sender signs nothing: it sends a token.
	open bool
}

func read(t testing.TB, path string) example {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	parts := bytes.SplitN(text, []byte(separator), 3)
	if len(parts) != 3 {
		t.Fatalf("%s: want settings, request and expectation", path)
	}
	x := example{want: string(parts[2]), given: text[:len(text)-len(parts[2])], request: trigger.Request{Method: http.MethodPost, Header: http.Header{}}}
	for line := range strings.Lines(string(parts[0])) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch name {
		case "secret", "secret:":
			x.check.Secrets = append(x.check.Secrets, value)
		case "now":
			at, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			x.request.At = time.Unix(at, 0)
		case "tolerance":
			if x.check.Tolerance, err = time.ParseDuration(value); err != nil {
				t.Fatal(err)
			}
		case "header":
			x.check.HMAC.Header = value
		case "prefix":
			x.check.HMAC.Prefix = value
		case "encoding":
			x.check.HMAC.Encoding = value
		case "algorithm":
			x.check.HMAC.Algorithm = value
		case "timestamp-header":
			x.check.HMAC.TimestampHeader = value
		case "timestamp-unit":
			x.check.HMAC.TimestampUnit = value
		case "signed":
			x.check.HMAC.Signed = value
		case "id-header":
			x.check.HMAC.IDHeader = value
		case "public-url":
			x.check.PublicURL = value
		case "method":
			x.request.Method = value
		case "query":
			x.request.RawQuery = value
			if x.request.Query, err = url.ParseQuery(value); err != nil {
				t.Fatal(err)
			}
		case "body":
			x.open = value == "not signed"
		default:
			t.Fatalf("%s: unknown setting %q", path, name)
		}
	}
	head, body, _ := bytes.Cut(append([]byte("\n"), parts[1]...), []byte("\n\n"))
	head = bytes.TrimPrefix(head, []byte("\n"))
	x.request.Body = body
	for line := range strings.Lines(string(head)) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		x.request.Header.Add(name, value)
	}
	return x
}

// outcome is what a door would do with the example.
func outcome(p trigger.Provider, x example) string {
	if err := p.Verify(x.request, x.check); err != nil {
		switch {
		case errors.Is(err, trigger.ErrSignature), errors.Is(err, trigger.ErrStale):
			return fmt.Sprintf("401: %v\n", err)
		default:
			return fmt.Sprintf("webhook is set up wrongly: %v\n", err)
		}
	}
	e, err := p.Event(x.request, x.check)
	if err != nil {
		if r, ok := trigger.AsRefusal(err); ok {
			return fmt.Sprintf("refused, %s: %v\n", r.Code, r)
		}
		return fmt.Sprintf("error: %v\n", err)
	}
	if e.Reply != nil {
		return fmt.Sprintf("reply: %s\n", e.Reply)
	}
	text := fmt.Sprintf("id: %s\nbody: %s\n", e.ID, e.Body)
	for _, item := range e.Items {
		text += fmt.Sprintf("item: %s %s\n", item.ID, item.Body)
	}
	if e.Thanks != nil {
		text += fmt.Sprintf("thanks: %s %s\n", e.Thanks.ContentType, e.Thanks.Body)
	}
	return text
}

// Every file of testdata is a request and what becomes of it. Among them are the
// published vectors of every sender.
func TestProviders_Golden(t *testing.T) {
	t.Parallel()
	for _, p := range All() {
		paths, err := filepath.Glob(filepath.Join("testdata", p.Name(), "*.txt"))
		if err != nil || len(paths) == 0 {
			t.Fatalf("provider %s has no examples (%v)", p.Name(), err)
		}
		for _, path := range paths {
			t.Run(p.Name()+"/"+strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
				t.Parallel()
				x := read(t, path)
				got := outcome(p, x)
				if *update {
					if err := os.WriteFile(path, append(bytes.Clone(x.given), got...), 0o644); err != nil {
						t.Fatal(err)
					}
					return
				}
				if diff := cmp.Diff(x.want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", path, diff)
				}
			})
		}
	}
}

// What a signing provider accepts it must refuse with one byte changed, with the
// signature under another secret, and without a secret.
func TestProviders_RefuseWhatIsNotSigned(t *testing.T) {
	t.Parallel()
	for _, p := range All() {
		if p.Name() == (None{}).Name() {
			continue
		}
		t.Run(p.Name(), func(t *testing.T) {
			t.Parallel()
			paths, err := filepath.Glob(filepath.Join("testdata", p.Name(), "*.txt"))
			if err != nil {
				t.Fatal(err)
			}
			good := 0
			for _, path := range paths {
				x := read(t, path)
				if p.Verify(x.request, x.check) != nil {
					continue
				}
				good++
				for i := range x.request.Body {
					if x.open {
						break
					}
					changed := x.request
					changed.Body = bytes.Clone(x.request.Body)
					changed.Body[i] ^= 1
					if err := p.Verify(changed, x.check); !errors.Is(err, trigger.ErrSignature) {
						t.Fatalf("%s with byte %d of the body changed: %v, want ErrSignature", path, i, err)
					}
				}
				for name, c := range map[string]trigger.Check{
					"no secret":    {Tolerance: x.check.Tolerance, PublicURL: x.check.PublicURL, HMAC: x.check.HMAC},
					"empty secret": {Tolerance: x.check.Tolerance, PublicURL: x.check.PublicURL, HMAC: x.check.HMAC, Secrets: []string{""}},
				} {
					if err := p.Verify(x.request, c); err == nil {
						t.Errorf("%s with %s: accepted", path, name)
					}
				}
				other := x.check
				other.Secrets = []string{"whsec_b3RoZXI="}
				if x.open {
					other.Secrets = []string{"other:other"}
				}
				if err := p.Verify(x.request, other); !errors.Is(err, trigger.ErrSignature) {
					t.Errorf("%s under another secret: %v, want ErrSignature", path, err)
				}
			}
			if good == 0 {
				t.Errorf("no example of %s verifies", p.Name())
			}
		})
	}
}

func TestAll_NamesAreUnique(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	var names []string
	for _, p := range All() {
		names = append(names, p.Name())
		if seen[p.Name()] || p.Name() == "" {
			t.Errorf("provider name %q is empty or taken twice", p.Name())
		}
		seen[p.Name()] = true
	}
	if diff := cmp.Diff(spec.Providers(), names); diff != "" {
		t.Errorf("providers of pkg/spec and of this package (-spec +here):\n%s", diff)
	}
}

// What a provider signs for a test-send, it takes: for every example that it
// verifies, signed anew a year later.
func TestProviders_TakeWhatTheySign(t *testing.T) {
	t.Parallel()
	for _, p := range All() {
		signer, ok := p.(trigger.Signer)
		if !ok {
			t.Errorf("provider %s cannot sign", p.Name())
			continue
		}
		paths, err := filepath.Glob(filepath.Join("testdata", p.Name(), "*.txt"))
		if err != nil {
			t.Fatal(err)
		}
		signed := 0
		for _, path := range paths {
			x := read(t, path)
			if p.Verify(x.request, x.check) != nil || bytes.Contains(x.given, []byte("v1a")) || bytes.Contains(x.given, []byte("webhookTimestamp")) {
				continue
			}
			x.request.At = x.request.At.AddDate(1, 0, 0)
			contentType := x.request.Header["Content-Type"]
			x.request.Header = http.Header{}
			if contentType != nil {
				x.request.Header["Content-Type"] = contentType
			}
			if err := signer.Sign(&x.request, x.check, "test_1"); err != nil {
				t.Errorf("%s: %v", path, err)
				continue
			}
			if err := p.Verify(x.request, x.check); err != nil {
				t.Errorf("%s, signed anew: %v", path, err)
			}
			signed++
		}
		if signed == 0 {
			t.Errorf("no example of %s was signed anew", p.Name())
		}
	}
}
