// Package web holds the console's pages: templates and the style sheet,
// embedded. It knows no service; services/console/httpapi fills the templates.
//
// Everything that a template prints is text: html/template escapes it and no
// value is ever marked safe. Control and direction characters are shown, not
// obeyed. The pages work without script and have no inline style; live.js only
// keeps what is shown up to date.
package web

import (
	"embed"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"
)

//go:embed templates/*.html
var templates embed.FS

//go:embed static/*.css
var sheets embed.FS

//go:embed static/icon.svg
var icon []byte

//go:embed static/live.js
var script []byte

// CSP is the Content-Security-Policy of every page.
const CSP = "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// css is holdfast.css, which every page needs, and after it the sheets of parts
// of the console by their names.
var css = func() []byte {
	names, err := fs.Glob(sheets, "static/*.css")
	if err != nil {
		panic(err) // the pattern is a constant
	}
	const first = "static/holdfast.css"
	names = append([]string{first}, slices.DeleteFunc(names, func(n string) bool { return n == first })...)
	var all []byte
	for _, name := range names {
		sheet, err := sheets.ReadFile(name)
		if err != nil {
			panic(err) // it is embedded
		}
		all = append(append(all, sheet...), '\n')
	}
	return all
}()

// CSS is the style sheet, served beside the pages as holdfast.css.
func CSS() []byte { return css }

// Script is what makes pages live, served beside them as live.js.
func Script() []byte { return script }

// Icon is the picture that a browser puts beside the title, served as icon.svg.
func Icon() []byte { return icon }

// A page is its own set: layout.html, the parts that pages share (their names
// begin with an underscore) and one file that defines "main".
var pages = func() map[string]*template.Template {
	files, err := fs.Glob(templates, "templates/*.html")
	if err != nil {
		panic(err) // the pattern is a constant
	}
	const layout = "templates/layout.html"
	shared := slices.DeleteFunc(slices.Clone(files), func(f string) bool { return !strings.HasPrefix(path.Base(f), "_") })
	out := map[string]*template.Template{}
	for _, file := range files {
		if file == layout || slices.Contains(shared, file) {
			continue
		}
		set := append(append([]string{layout}, shared...), file)
		out[strings.TrimSuffix(path.Base(file), ".html")] = template.Must(template.New("layout.html").Funcs(funcs).ParseFS(templates, set...))
	}
	return out
}()

// Render writes the page of that name: the name of its file in templates/ without the ending.
func Render(w io.Writer, name string, data any) error {
	page, ok := pages[name]
	if !ok {
		return fmt.Errorf("there is no page %q", name)
	}
	if err := page.Execute(w, data); err != nil {
		return fmt.Errorf("render %s: %w", name, err)
	}
	return nil
}

var funcs = merged(template.FuncMap{
	"callChip": callChip, "clip": clip, "effectChip": effectChip, "triggerChip": triggerChip,
	"field": fieldOf,
	"show":  Show, "clock": clock, "stamp": stamp, "chip": chipOf, "short": Short, "words": words, "menu": func() []Entry { return menu },
}, agentFuncs, signInFuncs, liveFuncs)

// merged joins the functions of all pages with those of parts of the console.
func merged(all ...template.FuncMap) template.FuncMap {
	out := template.FuncMap{}
	for _, m := range all {
		maps.Copy(out, m)
	}
	return out
}

// Show makes what a text would do to a page visible instead: control
// characters, direction marks and the like become their code in brackets. Line
// breaks and tabs stay.
func Show(s string) string {
	s = strings.ReplaceAll(s, "\r\n", "\n")
	if !strings.ContainsFunc(s, hidden) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if hidden(r) {
			fmt.Fprintf(&b, "[U+%04X]", r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

func hidden(r rune) bool {
	return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029')
}

func clock(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05")
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Short is the end of an id: the beginning is time and looks alike.
func Short(id string) string {
	if len(id) <= 8 {
		return id
	}
	return id[len(id)-8:]
}

func words(s string) string { return strings.ReplaceAll(s, "_", " ") }

// Chip is how a status looks: class, symbol and word, never colour alone.
type Chip struct{ Class, Symbol, Word string }

func chipOf(status string) Chip {
	switch status {
	case "queued":
		return Chip{"chip k-idle", "s-queue", "queued"}
	case "running":
		return Chip{"chip k-run", "s-run", "running"}
	case "waiting":
		return Chip{"chip k-idle", "s-wait", "waiting"}
	case "paused":
		return Chip{"chip k-idle", "s-pause", "paused"}
	case "needs_attention":
		return Chip{"chip k-bad", "s-need", "needs attention"}
	case "cancelling":
		return Chip{"chip k-idle", "s-stop", "cancelling"}
	case "completed":
		return Chip{"chip k-ok bare", "s-ok", "completed"}
	case "failed":
		return Chip{"chip k-bad", "s-bad", "failed"}
	case "cancelled":
		return Chip{"chip k-idle", "s-cancel", "cancelled"}
	case "expired":
		return Chip{"chip k-idle", "s-expired", "expired"}
	}
	return Chip{"chip k-idle", "s-wait", words(status)}
}
