// Package browsertest drives a real browser, Chromium without a window, for tests
// of the console.
//
// One browser serves all tests of a process; each test has a profile of its own, so
// that cookies of one are unknown to the others. A page that breaks its
// Content-Security-Policy, throws, or logs an error fails its test.
package browsertest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// Patience is how long a page is given to become what a test waits for.
const Patience = 90 * time.Second

// start runs the browser of this process. It ends with the process.
var start = sync.OnceValues(func() (context.Context, error) {
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		return nil, exec.ErrNotFound
	}
	alloc, _ := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, // root has no sandbox, and the pages are ours
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("force-color-profile", "srgb"))...)
	ctx, _ := chromedp.NewContext(alloc)
	return ctx, chromedp.Do(ctx) // starts it
})

// Tab is one tab with a profile of its own. Not for concurrent use.
type Tab struct {
	t   testing.TB
	ctx context.Context

	mu   sync.Mutex
	said []string // errors of the page
}

// New opens a tab, 1280 by 900 points, until t ends. Without a browser a test is
// skipped, and fails where CI is set.
func New(t testing.TB) *Tab {
	t.Helper()
	browser, err := start()
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("no browser: %v (scripts/setup.sh test installs it)", err)
		}
		t.Skipf("no browser: %v (scripts/setup.sh test installs it)", err)
	}
	b := &Tab{t: t}
	ctx, closeTab := chromedp.NewContext(browser, chromedp.WithNewBrowserContext(), chromedp.WithListener(b.hear))
	b.ctx = ctx
	t.Cleanup(closeTab)
	t.Cleanup(func() {
		for _, s := range b.heard() {
			t.Errorf("the page says: %s", s)
		}
		if t.Failed() {
			t.Logf("the page, %s:\n%s", b.Location(), b.text("body"))
		}
	})
	b.Do(chromedp.EmulateViewport(1280, 900))
	return b
}

// hear keeps what the browser complains of.
func (b *Tab) hear(ev any) {
	var said string
	switch e := ev.(type) {
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError {
			said = fmt.Sprintf("%s %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL)
		}
	case *runtime.EventExceptionThrown:
		said = fmt.Sprintf("%+v", e.ExceptionDetails)
	}
	if said != "" {
		b.mu.Lock()
		b.said = append(b.said, said)
		b.mu.Unlock()
	}
}

func (b *Tab) heard() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.said)
}

// Forgive forgets complaints that hold part, for a test that provokes them.
func (b *Tab) Forgive(part string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.said = slices.DeleteFunc(b.said, func(s string) bool { return strings.Contains(s, part) })
}

// Do runs steps, each to its end, within [Patience].
func (b *Tab) Do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := b.try(steps...); err != nil {
		b.t.Fatal(err)
	}
}

func (b *Tab) try(steps ...chromedp.Action[chromedp.Void]) error {
	done := make(chan error, 1)
	go func() { done <- chromedp.Do(b.ctx, steps...) }() // a deadline on the first call's context would end the browser
	select {
	case err := <-done:
		return err
	case <-time.After(Patience):
		return fmt.Errorf("the page does not do what was asked within %s", Patience)
	}
}

// Open goes to a page and waits until it is loaded.
func (b *Tab) Open(url string) {
	b.t.Helper()
	b.Do(chromedp.Navigate(url))
}

// Click clicks what a CSS selector finds first, once it can be seen.
func (b *Tab) Click(selector string) {
	b.t.Helper()
	for deadline := time.Now().Add(Patience); ; {
		err := b.try(chromedp.Click(chromedp.CSS(selector), chromedp.NodeVisible))
		if err == nil {
			return
		}
		// A page that follows what happens may have put another node in its place meanwhile.
		if !strings.Contains(err.Error(), "Could not find node") || time.Now().After(deadline) {
			b.t.Fatal(err)
		}
	}
}

// Fill puts text into a field, in the place of what is there.
func (b *Tab) Fill(selector, text string) {
	b.t.Helper()
	b.Do(chromedp.SetValue(chromedp.CSS(selector), text, chromedp.NodeVisible))
}

// Type types into a field, behind what is there.
func (b *Tab) Type(selector, text string) {
	b.t.Helper()
	b.Do(chromedp.SendKeys(chromedp.CSS(selector), text, chromedp.NodeVisible))
}

// Sees waits until what the selector finds first shows part.
func (b *Tab) Sees(selector, part string) {
	b.t.Helper()
	for deadline := time.Now().Add(Patience); ; time.Sleep(20 * time.Millisecond) {
		got := b.text(selector)
		if strings.Contains(got, part) {
			return
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("%s shows %q, want %q in it", selector, got, part)
		}
	}
}

// Count says how many elements a selector finds now.
func (b *Tab) Count(selector string) int {
	b.t.Helper()
	return Eval[int](b, fmt.Sprintf("document.querySelectorAll(%q).length", selector))
}

// Location is the address of the page.
func (b *Tab) Location() string {
	url, err := chromedp.Run(b.ctx, chromedp.Location())
	if err != nil {
		return err.Error()
	}
	return url
}

// text is what an element shows, "" when there is none.
func (b *Tab) text(selector string) string {
	got, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](fmt.Sprintf("document.querySelector(%q)?.innerText ?? ''", selector)))
	if err != nil {
		return "" // between two pages; asked again
	}
	return got
}

// Eval runs JavaScript in the page and returns its value.
func Eval[T any](b *Tab, script string) T {
	b.t.Helper()
	got, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](script))
	if err != nil {
		b.t.Fatalf("%s: %v", script, err)
	}
	return got
}

// Picture writes the whole page as name.png to the folder of the test's artifacts,
// which go test keeps when it is given -artifacts.
func (b *Tab) Picture(name string) {
	b.t.Helper()
	png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(b.t.ArtifactDir(), name+".png"), png, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// Size makes the window so many points wide and high.
func (b *Tab) Size(width, height int64) {
	b.t.Helper()
	b.Do(chromedp.EmulateViewport(width, height))
}

// Dark makes the page believe that its reader prefers dark, or light.
func (b *Tab) Dark(on bool) {
	b.t.Helper()
	scheme := "light"
	if on {
		scheme = "dark"
	}
	b.Do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return err
	}))
}
