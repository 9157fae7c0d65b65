package web

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/browsertest"
)

// stage is a page that a test changes while a browser shows it.
type stage struct {
	*httptest.Server

	mu     sync.Mutex
	body   string
	reads  int
	asked  []string // Last-Event-ID of each stream
	refuse int      // status of streams and pages instead, 0 for none
	// away is the status of pages alone, 0 for none; turned counts who got it.
	away, turned int
	// elsewhere sends whoever reads the page to the sign-in.
	elsewhere bool
	slow      time.Duration // how long a page takes
	noPlace   bool          // a stream that is asked for at a place is refused
	streams   map[chan string]struct{}
	spoken    chan string // of the run "one"
}

func newStage(t *testing.T, body string) *stage {
	s := &stage{body: body, streams: map[chan string]struct{}{}, spoken: make(chan string, 100)}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s
}

func (s *stage) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	body, refuse := s.body, s.refuse
	s.mu.Unlock()
	switch r.URL.Path {
	case "/ui/live.js":
		w.Header().Set("Content-Type", "text/javascript")
		_, _ = w.Write(Script()) // the browser may have gone
	case "/ui/holdfast.css":
		w.Header().Set("Content-Type", "text/css")
		_, _ = w.Write(CSS()) // the browser may have gone
	case "/v1/runs/one/events":
		s.tokens(w, r)
	case "/favicon.ico", "/ui/icon.svg":
	case "/ui/live":
		if refuse != 0 {
			w.WriteHeader(refuse)
			return
		}
		c := make(chan string, 10)
		s.mu.Lock()
		s.asked = append(s.asked, r.Header.Get("Last-Event-ID"))
		if s.noPlace && r.Header.Get("Last-Event-ID") != "" {
			s.mu.Unlock()
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		s.streams[c] = struct{}{}
		s.mu.Unlock()
		defer func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.streams, c)
		}()
		w.Header().Set("Content-Type", "text/event-stream")
		if first := r.Header.Get("Last-Event-ID"); first == "" {
			c <- message("e-1", "hello", "")
		} else if strings.HasSuffix(first, "gone") {
			c <- message("e-9", "resync", `,"reason":"what happened since then is no longer kept"`)
		} else {
			c <- message("e-5", "hello", `,"missed":38`)
		}
		for {
			select {
			case <-r.Context().Done():
				return
			case m := <-c:
				_, _ = w.Write([]byte(m))
				w.(http.Flusher).Flush()
			}
		}
	default:
		s.mu.Lock()
		elsewhere, away, slow := s.elsewhere && r.URL.Path == "/", s.away, s.slow
		if away != 0 {
			s.turned++
		}
		s.mu.Unlock()
		if away != 0 {
			w.WriteHeader(away)
			return
		}
		if elsewhere {
			http.Redirect(w, r, "/ui/sign-in", http.StatusSeeOther)
			return
		}
		if refuse != 0 {
			w.WriteHeader(refuse)
			return
		}
		select {
		case <-time.After(slow):
		case <-r.Context().Done():
		}
		s.mu.Lock()
		s.reads++
		s.mu.Unlock()
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", CSP)
		fmt.Fprintf(w, `<!doctype html><html lang="en"><head><title>x</title><link rel="stylesheet" href="/ui/holdfast.css"><script src="/ui/live.js" defer></script></head>
<body><span id="n-runs" hidden><span></span><span></span></span><main class="body">%s</main><p class="live conn" id="live" role="status"></p></body></html>`, body)
	}
}

func message(id, kind, more string) string {
	return fmt.Sprintf("id: %s\nevent: %s\ndata: {\"now\":%q%s}\n\n", id, kind, time.Now().UTC().Format(time.RFC3339Nano), more)
}

func (s *stage) become(body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.body = body
}

// say sends a message to every page.
func (s *stage) say(m string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.streams {
		c <- m
	}
}

func changed(id string) string { return message(id, "changed", `,"topics":["runs"]`) }

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(browsertest.Patience); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

const beforeChange = `<form class="card"><table><caption>Ended, UTC</caption><tbody id="rows" data-live="runs" data-rows>
<tr id="r1"><td><input type="checkbox" id="t1"></td><td>one</td><td>running</td></tr>
<tr id="r2"><td><input type="checkbox" id="t2"></td><td>two</td><td>waiting</td></tr></tbody></table></form>
<div id="part" data-live="runs"><details id="d"><summary>more</summary><p>inside</p></details><input id="note"><b>5</b></div>
<div id="other" data-live="system"><i>old</i></div>`

// What changed while the browser shows it is hostile too: it is ours that a page is
// made of, and yet nothing of it may run.
const afterChange = `<form class="card"><table><caption>Ended, UTC</caption><tbody id="rows" data-live="runs" data-rows>
<tr id="r3"><td><input type="checkbox" id="t3"></td><td>three<script>window.evil=1</script></td><td>queued</td></tr>
<tr id="r1"><td><input type="checkbox" id="t1"></td><td>one</td><td>done</td></tr></tbody></table></form>
<div id="part" data-live="runs"><details id="d"><summary>more</summary><p>inside again</p></details><input id="note"><b>6</b>
<svg><use href="javascript:evil"></use></svg><a id="bad" href="javascript:evil">x</a><iframe srcdoc="x"></iframe></div>
<div id="other" data-live="system"><i>new</i></div>`

func TestLive_APageFollowsAndKeepsWhatItsReaderDid(t *testing.T) {
	t.Parallel()
	s := newStage(t, beforeChange)
	b := s.opened(t)
	b.Click("#t1")
	b.Click("summary")
	b.Type("#note", "typed")
	s.become(afterChange)
	s.say(changed("e-2"))
	b.Sees("#r1", "done")
	b.Sees("#part b", "6")
	b.Sees("#d p", "inside again")
	if got := browsertest.Eval[string](b, `[document.querySelector('#t1').checked, document.querySelector('#d').open, document.querySelector('#note').value,
		document.activeElement.id, document.querySelector('#r2').className, document.querySelector('#other').innerText, !!document.querySelector('#r3'), typeof window.evil,
		document.querySelectorAll('main script, iframe').length, document.querySelector('#bad').hasAttribute('href')].join()`); got != "true,true,typed,note,gone,old,false,undefined,0,false" {
		t.Errorf("the page has %s", got)
	}
	b.Sees("#rows-new", "Show 1 new")
	b.Click("#rows-new")
	if got := browsertest.Eval[string](b, `[...document.querySelectorAll('#rows > tr')].map(r => r.id).join() + ' ' + document.querySelectorAll('#rows-new').length + ' ' + typeof window.evil + ' ' + document.activeElement.id`); got != "r3,r1,r2 0 undefined t3" {
		t.Errorf("the list has %s", got)
	}
	// Many changes are one reading.
	s.mu.Lock()
	before := s.reads
	s.mu.Unlock()
	s.become(strings.Replace(afterChange, "<b>6", "<b>7", 1))
	for n := range 9 {
		s.say(changed(fmt.Sprintf("e-%d", 10+n)))
	}
	b.Sees("#part b", "7")
	s.mu.Lock()
	if s.reads > before+2 {
		t.Errorf("nine changes were %d readings", s.reads-before)
	}
	s.mu.Unlock()
}

func TestLive_SaysSinceWhenItIsStaleAndWhatItMissed(t *testing.T) {
	t.Parallel()
	s := newStage(t, beforeChange)
	b := browsertest.New(t)
	b.Open(s.URL + "/")
	b.Sees("#live", "Live")
	s.become(strings.Replace(beforeChange, "running", "walking", 1))
	s.say(changed("e-4"))
	b.Sees("#r1", "walking")
	s.mu.Lock()
	s.refuse = http.StatusServiceUnavailable
	s.mu.Unlock()
	s.CloseClientConnections()
	b.Sees("#live.lost", "Reconnecting. What you see is from ")
	s.become(strings.Replace(beforeChange, "waiting", "moved on", 1))
	s.mu.Lock()
	s.refuse = 0
	s.mu.Unlock()
	b.Sees("#live", "Caught up. 38 events while you were away; nothing is missing.")
	b.Sees("#r2", "moved on")
	s.mu.Lock()
	if last := s.asked[len(s.asked)-1]; last != "e-4" {
		t.Errorf("the page resumed after %q", last)
	}
	s.mu.Unlock()
	s.become(strings.Replace(beforeChange, "running", "resting", 1))
	s.say(changed("e-gone"))
	b.Sees("#r1", "resting")
	s.become(strings.Replace(beforeChange, "running", "climbing", 1)) // of which nothing is said
	s.CloseClientConnections()
	until(t, "the page has the place", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.asked[len(s.asked)-1] == "e-gone"
	})
	b.Sees("#live", "This page was read again: what happened since then is no longer kept.")
	b.Sees("#r1", "climbing")
	s.mu.Lock()
	s.refuse = http.StatusUnauthorized
	s.mu.Unlock()
	s.say(changed("e-11"))
	b.Sees("#live a", "Sign in")
	b.Forgive("503")
	b.Forgive("401")
	b.Forgive("net::ERR")
}

// tokens is the stream of the run "one".
func (s *stage) tokens(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked = append(s.asked, "run after "+r.Header.Get("Last-Event-ID"))
	s.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	for {
		_, _ = w.Write([]byte(": beat\n\n"))
		w.(http.Flusher).Flush()
		select {
		case <-r.Context().Done():
			return
		case m := <-s.spoken:
			_, _ = w.Write([]byte(m))
		}
	}
}

func piece(epoch, n int, kind, text string) string {
	return fmt.Sprintf("event: delta\ndata: {\"run_id\":\"one\",\"epoch\":%d,\"turn\":3,\"n\":%d,\"kind\":%q,\"text\":%q}\n\n", epoch, n, kind, text)
}

func TestLive_AnAnswerIsShownWhileItIsWritten(t *testing.T) {
	t.Parallel()
	s := newStage(t, `<table><tbody id="rows" data-live="run:one" data-rows><tr id="f3"><td>row 3</td></tr></tbody></table><div id="tokens" data-tokens="one"></div>`)
	b := browsertest.New(t)
	b.Open(s.URL + "/")
	until(t, "the answer is listened to", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return strings.Contains(strings.Join(s.asked, ","), "run after 3")
	})
	s.spoken <- piece(1, 0, "text", "lost with its worker")
	b.Sees("#tokens", "lost with its worker")
	s.spoken <- piece(2, 0, "text", "<img src=x onerror=alert(1)>\u202e") + piece(2, 1, "text", " is text")
	b.Sees("#tokens p", "<img src=x onerror=alert(1)>[U+202E] is text")
	if n := b.Count("#tokens img"); n != 0 || strings.Contains(browsertest.Eval[string](b, "document.querySelector('#tokens').innerText"), "worker\nis") {
		t.Error("what the model writes became a part of the page")
	}
	if got := browsertest.Eval[string](b, "document.querySelector('#tokens').innerText"); strings.Contains(got, "lost with") {
		t.Errorf("another attempt left %q", got)
	}
	// The recorded answer takes its place, and a row that is new is shown at once.
	s.become(`<table><tbody id="rows" data-live="run:one" data-rows><tr id="f4"><td>row 4</td></tr><tr id="f3"><td>row 3</td></tr></tbody></table><div id="tokens" data-tokens="one"></div>`)
	s.spoken <- "id: 4\ndata: {\"seq\":4,\"kind\":\"model_answered\",\"status\":\"running\"}\n\n"
	s.say(message("e-2", "changed", `,"topics":["run:one"]`))
	b.Sees("#f4", "row 4")
	if n := browsertest.Eval[int](b, "document.querySelector('#tokens').childElementCount + document.querySelectorAll('.gone, #rows-new').length"); n != 0 {
		t.Error("the pieces of a recorded answer stay, or a row waits")
	}
	// More rows than one reading shows are no silent gap.
	s.become(`<table><tbody id="rows" data-live="run:one" data-rows><tr id="f900"><td>row 900</td></tr></tbody></table><div id="tokens" data-tokens="one"></div>`)
	s.say(message("e-3", "changed", `,"topics":["run:one"]`))
	b.Sees("#live", "More came than fits here")
	if n := b.Count("#rows > tr"); n != 1 {
		t.Errorf("%d rows, with a gap between them", n)
	}
	s.spoken <- "event: end\ndata: {\"status\":\"completed\"}\n\n"
}
