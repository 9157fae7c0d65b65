package web

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/browsertest"
)

// readings is how often the page was read.
func (s *stage) readings() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads
}

// opened shows the stage's page in a browser that listens to it and has read it once
// more, so that the next reading is the test's.
func (s *stage) opened(t *testing.T) *browsertest.Tab {
	t.Helper()
	b := browsertest.New(t)
	b.Open(s.URL + "/")
	b.Sees("#live", "Live")
	until(t, "the page is read once more, for what happened before it listened", func() bool { return s.readings() >= 2 })
	return b
}

// watch notes in the page, by its own clock, when it begins to read itself.
func watch(b *browsertest.Tab) {
	browsertest.Eval[int](b, `(() => { const f = window.fetch; window.readAt = []; window.fetch = (a, ...o) => { if (a === '/') readAt.push(performance.now()); return f(a, ...o) }; return 1 })()`)
}

// TestLive_ReadsItselfOnceInTwoSeconds: however often something changes, two seconds
// lie between two readings.
func TestLive_ReadsItselfOnceInTwoSeconds(t *testing.T) {
	t.Parallel()
	s := newStage(t, `<div id="part" data-live="runs"><b id="n">1</b></div>`)
	b := s.opened(t)
	watch(b)
	for _, n := range []string{"2", "3", "4"} {
		s.become(`<div id="part" data-live="runs"><b id="n">` + n + `</b></div>`)
		s.say(changed("e-" + n))
		b.Sees("#n", n)
	}
	if got := browsertest.Eval[string](b, `readAt.length + ' ' + readAt.slice(1).every((at, i) => at - readAt[i] >= 1990)`); got != "3 true" {
		t.Errorf("three changes were %s: %s", got, browsertest.Eval[string](b, `readAt.join()`))
	}
}

const writtenForm = `<div id="part" data-live="runs"><b id="n">1</b>
<label>typed and left<textarea id="left">from the server</textarea></label>
<label>typed and focused<textarea id="note">from the server</textarea></label>
<label>untouched<textarea id="fresh">from the server</textarea></label>
<label>chosen<select id="pick"><option value="a" selected>a</option><option value="b">b</option></select></label>
<label>a line<input id="line" value="from the server"></label></div>`

// TestLive_WhatIsBeingWrittenStays: a page that is read again while somebody writes
// takes nothing from under the hand, in a text area, a line or a choice, focused or not.
// What nobody has touched follows.
func TestLive_WhatIsBeingWrittenStays(t *testing.T) {
	t.Parallel()
	s := newStage(t, writtenForm)
	b := s.opened(t)
	values := func() string {
		return browsertest.Eval[string](b, `['left', 'note', 'fresh', 'pick', 'line'].map(id => document.getElementById(id).value).join() + ' ' + document.activeElement.id`)
	}
	added := "" // to what can be chosen
	turn := func(n, text string) {
		t.Helper()
		s.become(strings.NewReplacer(`"n">1`, `"n">`+n, "from the server", text, `value="a" selected`, `value="a"`, `value="b"`, `value="b" selected`, `id="pick">`, `id="pick">`+added).Replace(writtenForm))
		s.say(changed("e-" + n))
		b.Sees("#n", n)
	}
	// What has the focus stays, though nothing is typed yet.
	b.Click("#note")
	turn("2", "second text")
	if got := values(); got != "second text,from the server,second text,b,second text note" {
		t.Fatalf("nothing is typed, and the page has %q", got)
	}
	b.Click("#line")
	turn("3", "third text")
	if got := values(); got != "third text,third text,third text,b,second text line" {
		t.Fatalf("the line has the focus, and the page has %q", got)
	}
	// What is typed stays, with the focus and without it.
	b.Type("#line", " typed")
	b.Click("#left")
	b.Type("#left", " typed")
	browsertest.Eval[int](b, `document.getElementById('pick').selectedIndex = 0`)
	b.Type("#note", " typed")
	added = `<option value="z">z</option>`
	turn("4", "fourth text")
	turn("5", "fifth text")
	if got := values(); got != "third text typed,third text typed,fifth text,a,second text typed note" {
		t.Errorf("typed, and the page has %q", got)
	}
}

// TestLive_FocusAndPlaceStay: a part that comes elsewhere in the page takes the focus
// with it, what is open stays open and what is closed closed, and what a page of ours
// never has is taken out before it is shown.
func TestLive_FocusAndPlaceStay(t *testing.T) {
	t.Parallel()
	s := newStage(t, `<div id="part" data-live="runs"><b id="n">1</b><p id="b">b</p><p id="a">a <button id="first" type="button">first</button></p><details id="d"><summary>more</summary>inside</details><i id="gone">goes</i></div>`)
	b := s.opened(t)
	b.Click("#first")
	browsertest.Eval[int](b, `document.getElementById('first').mark = 1`)
	s.become(`<div id="part" data-live="runs"><b id="n">2</b><p id="a" style="color:red" onclick="window.evil=1">a <button id="first" type="button">first</button></p><p id="b">b</p><details id="d" open><summary>more</summary>inside</details>
<form action="//evil.example/x"><button formaction="https://evil.example">x</button></form></div>`)
	s.say(changed("e-2"))
	b.Sees("#n", "2")
	if got := browsertest.Eval[string](b, `[document.activeElement.id, document.getElementById('first').mark, document.getElementById('d').open, !!document.getElementById('gone'),
		document.querySelector('#a').nextElementSibling.id, document.querySelectorAll('[style],[onclick],[action],[formaction]').length].join()`); got != "first,1,false,false,b,0" {
		t.Errorf("the page has %s", got)
	}
	b.Forgive("Content Security Policy") // says so of what is read, before it is cleaned
}

// TestLive_NothingIsReadThatNobodySees: what changes while the page is hidden is read
// when it is looked at again, once.
func TestLive_NothingIsReadThatNobodySees(t *testing.T) {
	t.Parallel()
	s := newStage(t, `<div id="part" data-live="runs"><b id="n">1</b></div>`)
	b := s.opened(t)
	look := func(hidden string) {
		browsertest.Eval[bool](b, `(Object.defineProperty(document, 'hidden', { configurable: true, get: () => `+hidden+` }), document.dispatchEvent(new Event('visibilitychange')))`)
	}
	look("true")
	before := s.readings()
	watch(b)
	s.become(`<div id="part" data-live="runs"><b id="n">2</b></div>`)
	// Told of twice, and of the menu behind them, so both were heard when it is seen.
	s.say(changed("e-2"))
	s.say(changed("e-3"))
	s.say(message("e-4", "changed", `,"topics":[],"counts":[{"here":"runs","n":"1,234","words":"running","shown":true}]`))
	b.Sees("#n-runs", "1,234, 1,234 running")
	// A reading would have begun before the page's own clock says so.
	browsertest.Eval[bool](b, `(setTimeout(() => { window.waited = true }, 3000), true)`)
	until(t, "the time of a reading is over", func() bool { return browsertest.Eval[bool](b, `!!window.waited`) })
	if n := browsertest.Eval[int](b, `readAt.length`); n != 0 {
		t.Errorf("a hidden page was read %d times", n)
	}
	look("false")
	b.Sees("#n", "2")
	if n := s.readings(); n != before+1 {
		t.Errorf("a page that is looked at again was read %d times", n-before)
	}
}

// TestLive_AListStandsStillAndAPartIsOffered: a list that is paused does not change until
// it goes on, and a part that the page did not have is offered, not put in.
func TestLive_AListStandsStillAndAPartIsOffered(t *testing.T) {
	t.Parallel()
	list := func(n, more string) string {
		return `<button data-pause="rows" hidden>Pause</button><b id="n" data-live="runs">` + n + `</b><table><tbody id="rows" data-live="runs" data-rows="now"><tr id="r1"><td>row ` + n + `</td></tr></tbody></table>` + more
	}
	s := newStage(t, list("1", ""))
	b := s.opened(t)
	b.Click("button[data-pause]")
	b.Sees("button[data-pause]", "Go on")
	s.become(list("2", ""))
	s.say(changed("e-2"))
	b.Sees("#n", "2")
	if got := browsertest.Eval[string](b, `document.querySelector('#r1').textContent + document.querySelector('button[data-pause]').getAttribute('aria-pressed')`); got != "row 1true" {
		t.Errorf("the list that stands still has %q", got)
	}
	b.Click("button[data-pause]")
	b.Sees("#r1", "row 2")
	s.become(list("3", `<div id="later" data-live="runs">later</div>`))
	s.say(changed("e-3"))
	b.Sees("#live-more", "There is something new. Show it")
	b.Sees("#n", "3")
	if n := b.Count("#later"); n != 0 {
		t.Error("a part came into the page by itself")
	}
	b.Click("#live-more")
	b.Sees("#later", "later")
}

// TestLive_TheFirstRowsComeByThemselves: where a list was empty, there is nothing that
// could move under a hand.
func TestLive_TheFirstRowsComeByThemselves(t *testing.T) {
	t.Parallel()
	s := newStage(t, `<p id="rows" data-live="runs" data-empty>none</p>`)
	b := s.opened(t)
	s.become(`<table data-fills><thead><tr><th>run</th></tr></thead><tbody id="rows" data-live="runs" data-rows><tr id="r1"><td>one</td></tr></tbody></table>`)
	s.say(changed("e-2"))
	b.Sees("table", "run")
	b.Sees("#r1", "one")
	if n := b.Count("#live-more, #rows-new, p#rows"); n != 0 {
		t.Errorf("%d parts wait", n)
	}
	s.become(`<table data-fills><thead><tr><th>run</th></tr></thead><tbody id="rows" data-live="runs" data-rows><tr id="r2"><td>two</td></tr><tr id="r1"><td>one</td></tr></tbody></table>`)
	s.say(changed("e-3"))
	b.Sees("#rows-new", "Show 1 new")
}

// TestLive_GoesOnWhenItIsToldTo: a stream that ends in good order is opened again at its
// place, without a word; a page that leads to the sign-in says so and is not taken.
func TestLive_GoesOnWhenItIsToldTo(t *testing.T) {
	t.Parallel()
	s := newStage(t, `<div id="part" data-live="runs"><b id="n">1</b></div>`)
	b := s.opened(t)
	s.say(message("e-7", "again", ""))
	until(t, "the stream is opened again at its place", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.asked) == 2 && s.asked[1] == "e-7"
	})
	if got := browsertest.Eval[string](b, `document.getElementById('live').className`); strings.Contains(got, "lost") {
		t.Errorf("a stream that was to be opened again counts as lost: %s", got)
	}
	s.mu.Lock()
	s.elsewhere = true
	s.mu.Unlock()
	s.say(changed("e-8"))
	b.Sees("#live a", "Sign in")
	if got := browsertest.Eval[string](b, `document.getElementById('n').textContent`); got != "1" {
		t.Errorf("the page took %q from where it was led", got)
	}
}

// TestLive_AReadingThatFailsIsMadeAgain: what changed while the server could not answer
// is read when it can, though nothing more happens.
func TestLive_AReadingThatFailsIsMadeAgain(t *testing.T) {
	t.Parallel()
	s := newStage(t, `<div id="part" data-live="runs"><b id="n">1</b></div>`)
	b := s.opened(t)
	s.mu.Lock()
	s.away = 503
	s.mu.Unlock()
	s.become(`<div id="part" data-live="runs"><b id="n">2</b></div>`)
	s.say(changed("e-2"))
	until(t, "the page is refused", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.turned > 0 })
	s.mu.Lock()
	s.away = 0
	s.mu.Unlock()
	b.Sees("#n", "2")
	b.Forgive("503")
}

// TestLive_ASlowServerIsAskedLessOften: between two readings lies ten times as long as
// the one before took.
func TestLive_ASlowServerIsAskedLessOften(t *testing.T) {
	t.Parallel()
	s := newStage(t, `<div id="part" data-live="runs"><b id="n">1</b></div>`)
	b := s.opened(t)
	watch(b)
	s.mu.Lock()
	s.slow = 500 * time.Millisecond
	s.mu.Unlock()
	for _, n := range []string{"2", "3"} {
		s.become(`<div id="part" data-live="runs"><b id="n">` + n + `</b></div>`)
		s.say(changed("e-" + n))
		b.Sees("#n", n)
	}
	if got := browsertest.Eval[string](b, `readAt.length + ' ' + (readAt[1] - readAt[0] >= 5000)`); got != "2 true" {
		t.Errorf("two changes were %s: %s", got, browsertest.Eval[string](b, `readAt.join()`))
	}
}

// TestLive_ASlowServerIsAskedAllTheSame: however long a reading took, the next one comes
// within 20 seconds of its end.
func TestLive_ASlowServerIsAskedAllTheSame(t *testing.T) {
	t.Parallel()
	s := newStage(t, `<div id="part" data-live="runs"><b id="n">1</b></div>`)
	b := s.opened(t)
	s.mu.Lock()
	s.slow = 2600 * time.Millisecond
	s.mu.Unlock()
	s.become(`<div id="part" data-live="runs"><b id="n">2</b></div>`)
	s.say(changed("e-2"))
	b.Sees("#n", "2")
	// Of the page's timers only that of a reading is between five seconds and the silence
	// of a stream, but for the words that rest for eight.
	browsertest.Eval[int](b, `(() => { const f = window.setTimeout; window.waits = []; window.setTimeout = (g, ms, ...o) => { if (ms > 9000 && ms !== 25000) waits.push(ms); return f(g, ms, ...o) }; return 1 })()`)
	s.say(changed("e-3"))
	until(t, "the next reading is planned", func() bool { return browsertest.Eval[int](b, `waits.length`) > 0 })
	if got := browsertest.Eval[float64](b, `waits[0]`); got > 20300 {
		t.Errorf("the next reading comes after %.0f ms", got)
	}
}

// TestLive_APlaceThatIsNoneIsLeft: a page whose place the server refuses begins anew
// without one, reads itself again and says why.
func TestLive_APlaceThatIsNoneIsLeft(t *testing.T) {
	t.Parallel()
	s := newStage(t, `<div id="part" data-live="runs"><b id="n">1</b></div>`)
	b := s.opened(t)
	s.mu.Lock()
	s.noPlace = true
	s.mu.Unlock()
	s.become(`<div id="part" data-live="runs"><b id="n">2</b></div>`) // of which nothing is said
	s.CloseClientConnections()
	b.Sees("#live", "This page was read again: its place in the stream was not known.")
	b.Sees("#n", "2")
	s.mu.Lock()
	if n := len(s.asked); n < 3 || s.asked[n-1] != "" || s.asked[n-2] != "e-1" {
		t.Errorf("it asked for %q", s.asked)
	}
	s.mu.Unlock()
	b.Forgive("400")
	b.Forgive("net::ERR")
}
