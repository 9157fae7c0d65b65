package kind

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"path"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
	"golang.org/x/net/html/charset"

	"github.com/holdfast-run/holdfast/internal/egress"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/tools"
)

// FetchPage reads a web page as text. It is a read.
type FetchPage struct{ egress Sender }

var _ tools.Kind = (*FetchPage)(nil)

// Bounds of a page.
const (
	maxPageBytes = 2 << 20  // read
	maxPageText  = 64 << 10 // shown
	maxPageLinks = 50
)

// Name is "fetch_page".
func (f *FetchPage) Name() string { return spec.BuiltinFetchPage }

// Runs reports whether the definition names the builtin.
func (f *FetchPage) Runs(t *spec.Tool) bool { return t.Builtin == spec.BuiltinFetchPage }

// Page is what the model reads.
type Page struct {
	URL         string `json:"url"` // after redirects
	Status      int    `json:"status"`
	ContentType string `json:"content_type,omitempty"`
	Title       string `json:"title,omitempty"`
	Text        string `json:"text"`
	Links       []Link `json:"links,omitempty"`
	Note        string `json:"note,omitempty"`
	// Artifacts holds the page as it came when it is not shown whole.
	Artifacts []artifactNote `json:"artifacts,omitempty"`
}

// Link is one link of a page.
type Link struct {
	Text string `json:"text"`
	URL  string `json:"url"`
}

// Act fetches args.url.
func (f *FetchPage) Act(ctx context.Context, r tools.Request) tools.Outcome {
	var args struct {
		URL string `json:"url"`
	}
	if err := json.Unmarshal(r.Args, &args); err != nil || args.URL == "" {
		return invalid(errors.New(`url is required, like {"url": "https://example.com/"}`))
	}
	u, err := url.Parse(args.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
		return invalid(errors.New("url must be an http or https address without a user"))
	}
	u.Fragment = ""
	resp, err := f.egress.Do(ctx, egress.Request{
		Method: http.MethodGet, URL: u.String(), Read: true, MaxBytes: maxPageBytes, Reach: egress.Reach{Hosts: r.Tool.AllowHosts},
		Header: http.Header{"Accept": {"text/html, text/*;q=0.9, application/json;q=0.8, */*;q=0.1"}},
	})
	if err != nil {
		return sendFailure(ctx, err, scrubber{})
	}
	receipt := tools.Receipt{
		Status: resp.Status, Bytes: int64(len(resp.Body)), ContentType: clean(resp.Header.Get("Content-Type"), 200),
	}
	out := statusOutcome(resp, true, scrubber{})
	if out.Verdict == tools.Happened {
		keep := &keeper{r: r}
		out.Result, err = events.Marshal(page(resp, outputLimit(r.Tool, maxPageText), keep))
		if out.Artifacts = keep.list; err != nil {
			out = tools.Outcome{Verdict: tools.Refused, Error: &events.Problem{Code: "unreadable", Message: "the page cannot be shown"}}
		}
	}
	out.Receipt = receipt
	return out
}

func invalid(err error) tools.Outcome {
	return tools.Outcome{Verdict: tools.Refused, Error: &events.Problem{Code: "invalid_arguments", Message: err.Error()}}
}

func page(r egress.Response, limit int, keep *keeper) Page {
	r = unzipped(r)
	contentType := r.Header.Get("Content-Type")
	p := Page{URL: clean(r.URL, 2048), Status: r.Status, ContentType: clean(contentType, 200)}
	media, _, _ := mime.ParseMediaType(contentType)
	if media == "" {
		media, _, _ = mime.ParseMediaType(http.DetectContentType(r.Body))
	}
	switch {
	case encoding(r) != "":
		p.Note = fmt.Sprintf("packed content, %s, not shown", size(r))
		p.Artifacts = keep.bytes(r.Body, p.ContentType, pageName(r.URL), r.Truncated)
		return p
	case media == "text/html" || media == "application/xhtml+xml":
		base, _ := url.Parse(r.URL)
		p.Title, p.Text, p.Links = readable(utf8Reader(r.Body, contentType, r.Truncated), base)
	case isText(contentType, r.Body):
		b, err := io.ReadAll(utf8Reader(r.Body, contentType, r.Truncated))
		if err != nil {
			b = r.Body
		}
		p.Text = string(b)
	default:
		p.Note = fmt.Sprintf("binary content, %s, not shown", size(r))
		p.Artifacts = keep.bytes(r.Body, p.ContentType, pageName(r.URL), r.Truncated)
		return p
	}
	p.Text = clean(p.Text, maxPageText+1)
	if len(p.Text) > limit || r.Truncated {
		p.Text = clipText(p.Text, limit)
		p.Artifacts = keep.bytes(r.Body, p.ContentType, pageName(r.URL), r.Truncated)
		p.Note = fmt.Sprintf("cut off after %d bytes: the page is longer", len(p.Text))
	}
	return p
}

// pageName is the last part of an address's path.
func pageName(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return path.Base(u.Path)
}

// utf8Reader decodes what the header or the page itself says it is. Without a
// word it is UTF-8 when all of it is: the beginning, which is what the detection
// looks at, may be plain ASCII.
func utf8Reader(body []byte, contentType string, cut bool) io.Reader {
	e, _, certain := charset.DetermineEncoding(body, contentType)
	if e == nil || !certain && validUTF8(body, cut) {
		return bytes.NewReader(body)
	}
	return e.NewDecoder().Reader(bytes.NewReader(body))
}

// validUTF8 reports whether b is UTF-8. When it was cut off, a part of a character
// may be at its end.
func validUTF8(b []byte, cut bool) bool {
	for i := 1; cut && i < utf8.UTFMax && i <= len(b); i++ {
		if last := b[len(b)-i:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				b = b[:len(b)-i]
			}
			break
		}
	}
	return utf8.Valid(b)
}

// readable extracts title, text and links. It reads tokens and builds no tree,
// so no nesting can exhaust it.
func readable(r io.Reader, base *url.URL) (title, text string, links []Link) {
	z := html.NewTokenizer(r)
	z.SetMaxBuf(1 << 20)
	var w writer
	var heading strings.Builder
	var href string
	var linkText strings.Builder
	skip, inTitle := atom.Atom(0), false
	for {
		kind := z.Next()
		if kind == html.ErrorToken {
			return oneLine(heading.String(), 300), w.String(), links
		}
		tok := z.Token()
		switch {
		case skip != 0:
			if kind == html.EndTagToken && tok.DataAtom == skip {
				skip = 0
			}
		case kind == html.TextToken:
			if inTitle {
				heading.WriteString(tok.Data)
				continue
			}
			w.text(tok.Data)
			if href != "" && linkText.Len() < 200 {
				linkText.WriteString(tok.Data)
			}
		case kind == html.StartTagToken || kind == html.SelfClosingTagToken:
			switch tok.DataAtom {
			case atom.Script, atom.Style, atom.Noscript, atom.Template, atom.Svg, atom.Iframe, atom.Object, atom.Select, atom.Textarea:
				if kind == html.StartTagToken {
					skip = tok.DataAtom
				}
			case atom.Title:
				inTitle = kind == html.StartTagToken
			case atom.A:
				href = attribute(tok, "href")
				linkText.Reset()
			case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
				w.line()
				w.text("# ")
			case atom.Li:
				w.line()
				w.text("- ")
			case atom.Td, atom.Th:
				w.cell()
			default:
				if blocks[tok.DataAtom] {
					w.line()
				}
			}
		case kind == html.EndTagToken:
			switch {
			case tok.DataAtom == atom.Title:
				inTitle = false
			case tok.DataAtom == atom.A && href != "":
				if l, ok := link(base, href, linkText.String()); ok && len(links) < maxPageLinks {
					links = append(links, l)
				}
				href = ""
			case blocks[tok.DataAtom]:
				w.line()
			}
		}
	}
}

var blocks = map[atom.Atom]bool{
	atom.P: true, atom.Div: true, atom.Br: true, atom.Section: true, atom.Article: true, atom.Header: true, atom.Footer: true,
	atom.Main: true, atom.Nav: true, atom.Aside: true, atom.Ul: true, atom.Ol: true, atom.Li: true, atom.Dl: true, atom.Dt: true,
	atom.Dd: true, atom.Table: true, atom.Tr: true, atom.Pre: true, atom.Blockquote: true, atom.Hr: true, atom.Form: true,
	atom.Figure: true, atom.Figcaption: true, atom.Body: true,
	atom.H1: true, atom.H2: true, atom.H3: true, atom.H4: true, atom.H5: true, atom.H6: true,
}

func attribute(t html.Token, name string) string {
	for _, a := range t.Attr {
		if a.Key == name {
			return strings.TrimSpace(a.Val)
		}
	}
	return ""
}

func link(base *url.URL, href, text string) (Link, bool) {
	u, err := url.Parse(href)
	if err != nil {
		return Link{}, false
	}
	if base != nil {
		u = base.ResolveReference(u)
	}
	u.Fragment = ""
	if u.Scheme != "http" && u.Scheme != "https" {
		return Link{}, false
	}
	return Link{Text: oneLine(text, 200), URL: clean(u.String(), 2048)}, true
}

func oneLine(s string, limit int) string { return clean(strings.Join(strings.Fields(s), " "), limit) }

// writer collects text with white space folded and at most one empty line.
type writer struct {
	b     strings.Builder
	space bool // a space is owed
	fresh bool // at the beginning of a line
}

func (w *writer) text(s string) {
	if w.b.Len() > maxPageText+1 {
		return
	}
	for i, field := range strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(" \t\r\n\f\u00a0", r) }) {
		lead := i > 0 || strings.IndexAny(s[:1], " \t\r\n\f") == 0 || strings.HasPrefix(s, "\u00a0")
		if (w.space || lead) && w.b.Len() > 0 && !w.fresh {
			w.b.WriteByte(' ')
		}
		w.b.WriteString(field)
		w.space, w.fresh = false, false
	}
	if s != "" && (strings.TrimRight(s, " \t\r\n\f\u00a0") != s) {
		w.space = true
	}
}

func (w *writer) line() {
	if w.b.Len() > 0 && !w.fresh {
		w.b.WriteByte('\n')
		w.fresh = true
	}
	w.space = false
}

func (w *writer) cell() {
	if w.b.Len() > 0 && !w.fresh {
		w.b.WriteString(" |")
		w.space = true
	}
}

func (w *writer) String() string { return strings.TrimSpace(w.b.String()) }
