package door

import (
	"context"
	"net/http"
	"reflect"
	"regexp"
	"strings"
	"time"
	"unicode"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/holdfast-run/holdfast/internal/authn"
)

// AuditEntry is one act at a door. It has no bodies and no secrets.
type AuditEntry struct {
	ID        string `json:"id"` // ordered by time
	Namespace string `json:"namespace"`
	Service   string `json:"service"`
	Actor     string `json:"actor"`
	Role      string `json:"role"`
	TokenID   string `json:"token_id"`
	SessionID string `json:"session_id"`
	Door      string `json:"door"`   // FromPage, FromClient or FromAPI
	Action    string `json:"action"` // id of the operation, or method and pattern of a page
	Target    string `json:"target"` // the values of the path, or the ids that a form chose
	Reason    string `json:"reason"`
	RequestID string `json:"request_id"`
	Status    int    `json:"status"` // of HTTP; 0: not known yet
}

// From where an act came.
const (
	FromPage   = "page"   // a browser with a session, or a form
	FromClient = "client" // our own client: the command line, Go programs
	FromAPI    = "api"
)

// auditWithin bounds one write of the audit: while the database is away an act is refused,
// not kept waiting.
const auditWithin = 3 * time.Second

// Bounds of what is kept.
const (
	maxTarget = 500
	maxReason = 1000
)

// Auditor keeps what was done. It is safe for concurrent use.
type Auditor interface {
	// Begin keeps e before the act; when it fails there is no act.
	Begin(ctx context.Context, e AuditEntry) error
	// End adds Status, Target and Reason to what Begin kept. When it fails the entry stays
	// without an end.
	End(ctx context.Context, e AuditEntry) error
}

// Audits reports whether a route is one whose acts are kept: all that change
// something and know who asks, but for a program's work.
func (r Route) Audits() bool { return r.Role != Public && r.Method != http.MethodGet && !r.Work }

const metaWork = "holdfast.work"

// Work marks an operation, as its Metadata, as what programs do all day and what leaves
// a row of its own with its sender: the start of a run, a step in the ledger. The audit
// is of what operators do; it would keep each of these twice more.
func Work() map[string]any { return map[string]any{metaWork: true} }

func isWork(op *huma.Operation) bool { work, _ := op.Metadata[metaWork].(bool); return work }

type auditKey struct{}

// act is what the handler of a request may still say about it.
type act struct{ reason string }

// Because says why the act of ctx's request is done, as its sender says.
func Because(ctx context.Context, reason string) {
	if a, ok := ctx.Value(auditKey{}).(*act); ok {
		a.reason = reason
	}
}

// Record keeps an act that a public route knows to be somebody's: a sign-in. An error
// means that it is not kept; the act must not be.
func (d *Door) Record(r *http.Request, p authn.Principal, action string, status int) error {
	if d.cfg.Audit == nil {
		return nil
	}
	e := d.entry(r, p, action)
	e.Status = status
	ctx, cancel := context.WithTimeout(r.Context(), auditWithin)
	defer cancel()
	return d.cfg.Audit.Begin(ctx, e)
}

func (d *Door) entry(r *http.Request, p authn.Principal, action string) AuditEntry {
	e := AuditEntry{
		Namespace: p.Namespace, Service: d.cfg.Title, Actor: p.Name, Role: p.Role.String(), TokenID: p.TokenID, SessionID: p.SessionID,
		Action: action, Door: FromAPI, RequestID: RequestID(r.Context()),
	}
	if id, err := uuid.NewV7(); err == nil {
		e.ID = id.String()
	} else {
		e.ID = uuid.NewString()
	}
	switch {
	case p.SessionID != "" || strings.HasPrefix(r.URL.Path, "/ui/"):
		e.Door = FromPage
	case strings.HasPrefix(r.UserAgent(), "holdfast"):
		e.Door = FromClient
	}
	return e
}

var pathValue = regexp.MustCompile(`\{([a-zA-Z_]+)(?:\.\.\.)?\}`)

// target is what the path of a request names.
func target(r *http.Request, pattern string) string {
	var parts []string
	for _, m := range pathValue.FindAllStringSubmatch(pattern, -1) {
		parts = append(parts, r.PathValue(m[1]))
	}
	return auditText(strings.Join(parts, " "), maxTarget)
}

// audited keeps what a request does: before h, and after it what came of it.
func (d *Door) audited(w http.ResponseWriter, r *http.Request, p authn.Principal, route Route, action string, h http.Handler) {
	e := d.entry(r, p, action)
	e.Target = target(r, route.Pattern)
	ctx, cancel := context.WithTimeout(r.Context(), auditWithin)
	err := d.cfg.Audit.Begin(ctx, e)
	cancel()
	if err != nil {
		Fail(w, r, unavailable(2e9).Because(err))
		return
	}
	said := &act{}
	r = r.WithContext(context.WithValue(r.Context(), auditKey{}, said))
	rec := &recorder{ResponseWriter: w}
	ended := false
	defer func() {
		e.Status = rec.status
		switch {
		case !ended: // it panicked
			e.Status = http.StatusInternalServerError
		case e.Status == 0:
			e.Status = http.StatusOK
		}
		e.Reason = said.reason
		if r.PostForm != nil {
			formSays(r, &e)
		}
		e.Reason, e.Target = auditText(e.Reason, maxReason), auditText(e.Target, maxTarget)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), auditWithin)
		defer cancel()
		if err := d.cfg.Audit.End(ctx, e); err != nil {
			d.cfg.Log.ErrorContext(r.Context(), "the end of an act is not in the audit", "err", err, "request_id", e.RequestID, "action", e.Action, "status", e.Status)
		}
	}()
	h.ServeHTTP(rec, r)
	ended = true
}

// formSays takes reason and chosen ids from a form that the handler has read.
func formSays(r *http.Request, e *AuditEntry) {
	for _, name := range []string{"reason", "comment"} {
		if v := r.PostForm.Get(name); v != "" && e.Reason == "" {
			e.Reason = v
		}
	}
	if ids := r.PostForm["id"]; len(ids) > 0 && e.Target == "" {
		e.Target = strings.Join(ids[:min(len(ids), 10)], " ")
		if len(ids) > 10 {
			e.Target += " …"
		}
	}
}

// refusedAct keeps that somebody wanted what their role may not.
func (d *Door) refusedAct(r *http.Request, p authn.Principal, route Route, action string) {
	e := d.entry(r, p, action)
	e.Target, e.Status = target(r, route.Pattern), http.StatusForbidden
	ctx, cancel := context.WithTimeout(r.Context(), auditWithin)
	defer cancel()
	if err := d.cfg.Audit.Begin(ctx, e); err != nil {
		d.cfg.Log.ErrorContext(r.Context(), "a refused act is not in the audit", "err", err, "request_id", e.RequestID, "action", e.Action)
	}
}

// bodySays tells the reason that a body has, in the members that our bodies have it in.
func bodySays(ctx context.Context, in any) {
	v := reflect.Indirect(reflect.ValueOf(in))
	if v.Kind() != reflect.Struct {
		return
	}
	body := reflect.Indirect(v.FieldByName("Body"))
	if body.Kind() != reflect.Struct {
		return
	}
	for _, name := range []string{"Reason", "Comment"} {
		if f := body.FieldByName(name); f.IsValid() && f.Kind() == reflect.String && f.String() != "" {
			Because(ctx, f.String())
			return
		}
	}
}

// auditText is s without what a database or a terminal would stumble over, cut.
func auditText(s string, limit int) string {
	s = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, strings.ToValidUTF8(s, "\uFFFD"))
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "") + "…"
	}
	return s
}
