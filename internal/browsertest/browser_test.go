package browsertest

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// page answers everything under a policy that lets it run nothing inline.
func page(t *testing.T, html string) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'none'; form-action 'self'")
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		if r.URL.Path == "/favicon.ico" {
			return
		}
		if r.Method == http.MethodPost {
			http.SetCookie(w, &http.Cookie{Name: "who", Value: r.FormValue("who"), Path: "/"})
			http.Redirect(w, r, "/", http.StatusSeeOther)
			return
		}
		body := html
		if c, err := r.Cookie("who"); err == nil {
			body = "<p>" + c.Value + "</p>"
		}
		_, _ = w.Write([]byte("<!doctype html><title>x</title>" + body)) // the browser may have gone
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestTab_FillsAFormAndHasCookiesOfItsOwn(t *testing.T) {
	url := page(t, `<form method="post"><input name="who"><button>Send</button></form>`)
	b := New(t)
	b.Open(url)
	b.Type("input", "ada")
	b.Click("button")
	b.Sees("p", "ada")
	b.Picture("ada")
	if info, err := os.Stat(filepath.Join(t.ArtifactDir(), "ada.png")); err != nil || info.Size() < 1000 {
		t.Errorf("the picture is %v, %v", info, err)
	}
	other := New(t)
	other.Open(url)
	if other.Count("form") != 1 || other.Count("p") != 0 {
		t.Errorf("another tab knows who this one is: %s", other.text("body"))
	}
}

// quietly is a test that lets nobody hear of its failure.
type quietly struct {
	testing.TB
	cleanups []func()
	errors   int
}

func (q *quietly) Cleanup(f func())      { q.cleanups = append(q.cleanups, f) }
func (q *quietly) Errorf(string, ...any) { q.errors++ }
func (q *quietly) Failed() bool          { return q.errors > 0 }
func (q *quietly) Logf(string, ...any)   {}

func TestTab_APageThatBreaksItsPolicyFails(t *testing.T) {
	for html, complaints := range map[string]int{
		`<p>fine</p>`: 0,
		`<p>fine</p><script>document.title = 1</script>`: 1,
		`<p style="color: red">fine</p>`:                 1,
	} {
		q := &quietly{TB: t}
		b := New(q)
		b.Open(page(t, html))
		b.Sees("p", "fine")
		for deadline := time.Now().Add(Patience); len(b.heard()) < complaints && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		}
		for i := len(q.cleanups) - 1; i >= 0; i-- {
			q.cleanups[i]()
		}
		if q.errors != complaints {
			t.Errorf("%s: %d complaints, want %d", html, q.errors, complaints)
		}
	}
}
