package httpapi

import (
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/services/console"
	"github.com/holdfast-run/holdfast/web"
)

// AuditPath shows what people and programs did.
const AuditPath = "/ui/audit"

// pageActs is how many acts the page shows.
const pageActs = 50

func (a *api) auditPages() {
	a.door.Page("GET "+AuditPath, authn.Operator, a.auditPage)
}

type auditPage struct {
	frame
	Acts                  []console.Act
	Actor, Action, Target string
	Door, Outcome, Since  string
	Doors, Outcomes       []string
	Wrong, Next           string
}

func (a *api) auditPage(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	data := auditPage{frame: door.FrameOf(r, "Audit"), Actor: q.Get("actor"), Action: q.Get("action"), Target: q.Get("target"), Door: q.Get("door"), Outcome: q.Get("outcome"), Since: q.Get("since"),
		Doors: []string{door.FromPage, door.FromClient, door.FromAPI, "link", "slack"}, Outcomes: console.Outcomes()}
	in := listActsInput{PageInput: door.PageInput{Limit: pageActs, Cursor: q.Get("cursor")}, Actor: data.Actor, Action: data.Action, Target: data.Target, Door: data.Door, Outcome: data.Outcome}
	status := http.StatusOK
	if data.Since != "" {
		var err error
		if in.Since, err = time.Parse(time.DateOnly, data.Since); err != nil {
			data.Wrong, status = "This is not a day. Write it as 2026-03-05.", http.StatusBadRequest
			return web.Write(w, status, "audit", data)
		}
	}
	if data.Door != "" && !slices.Contains(data.Doors, data.Door) || data.Outcome != "" && !slices.Contains(data.Outcomes, data.Outcome) {
		return door.Error(http.StatusBadRequest, door.CodeBadRequest, "the page knows no such filter; begin at "+AuditPath)
	}
	f, err := in.filter(data.frame.Namespace)
	if err != nil {
		return err
	}
	found, err := a.console.Acts(r.Context(), f)
	if err != nil {
		return err
	}
	cut := door.NewPage(found, pageActs, positionOf)
	data.Acts = cut.Items
	if cut.NextCursor != "" {
		next := url.Values{"cursor": {cut.NextCursor}}
		for _, k := range []string{"actor", "action", "target", "door", "outcome", "since"} {
			if v := q.Get(k); v != "" {
				next.Set(k, v)
			}
		}
		data.Next = AuditPath + "?" + next.Encode()
	}
	return web.Write(w, status, "audit", data)
}
