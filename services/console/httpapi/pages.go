package httpapi

import (
	"bytes"
	"encoding/json"
	"net/http"

	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/web"
)

// frame is what every page shows around its own part.
type frame = web.Frame

// pages are the console's pages: a line for each file page_*.go.
func (a *api) pages() {
	a.runsPages()
	a.bulkPages()
	a.runPages()
	a.deletePages()
	a.agentPages()
	a.budgetPages()
	a.systemPages()
	a.signInPages()
	a.accountPages()
	a.auditPages()
	a.door.Raw("GET /ui/holdfast.css", door.Public, static("text/css; charset=utf-8", web.CSS()))
	a.door.Raw("GET /ui/icon.svg", door.Public, static("image/svg+xml", web.Icon()))
}

// static answers with a file that is part of the program.
func static(contentType string, content []byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("Cache-Control", "public, max-age=300")
		_, _ = w.Write(content) // the client is gone when this fails
	})
}

func runIn(r *http.Request) (events.RunID, error) {
	id := events.RunID(r.PathValue("id"))
	if !id.Valid() {
		return "", door.NotFound("%q is not the id of a run", string(id))
	}
	return id, nil
}

// pretty indents JSON without touching its digits.
func pretty(raw json.RawMessage) string {
	if len(raw) == 0 {
		return ""
	}
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}
