package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console"
	"github.com/holdfast-run/holdfast/web"
)

const (
	pageRuns    = 50
	pageJournal = 100
)

var statuses = []string{
	events.StatusQueued, events.StatusRunning, events.StatusWaiting, events.StatusPaused, events.StatusAttention, events.StatusCancelling,
	events.StatusCompleted, events.StatusFailed, events.StatusCancelled, events.StatusExpired,
}

// frame is what every page shows around its own part.
type frame = web.Frame

func (a *api) pages() {
	a.door.Raw("GET /{$}", authn.Viewer, page(a.runsPage))
	a.door.Raw("GET /ui/runs/{id}", authn.Viewer, page(a.runPage))
	a.door.Raw("POST /ui/runs/{id}/cancel", authn.Operator, page(a.cancelForm))
	a.door.Raw("POST /ui/runs/delete", authn.Operator, page(a.deleteForm))
	a.door.Raw("GET "+SignInPath, door.Public, page(a.signInPage))
	a.door.Raw("POST "+SignInPath, door.Public, page(a.signIn))
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

// page answers an error as a problem document: a page that cannot be made says
// why in words too.
func page(h func(w http.ResponseWriter, r *http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := h(w, r); err != nil {
			door.Fail(w, r, err)
		}
	})
}

func frameOf(r *http.Request, title, here string) frame {
	p, ok := authn.FromContext(r.Context())
	f := frame{Title: title, Here: here, At: time.Now().UTC()}
	if ok {
		f.Namespace, f.Name, f.Role = p.Namespace, p.Name, p.Role.String()
	}
	return f
}

type runsPage struct {
	frame
	Runs                       []console.Run
	Status, Agent, Flow, Label string
	Statuses                   []string
	Next                       string
	MayDelete                  map[events.RunID]bool
}

func (a *api) runsPage(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	in := listRunsInput{PageInput: door.PageInput{Limit: pageRuns, Cursor: q.Get("cursor")},
		Agent: q.Get("agent"), Flow: q.Get("flow"), Status: q.Get("status")}
	if l := q.Get("label"); l != "" {
		in.Label = []string{l}
	}
	f := frameOf(r, "Runs", "runs")
	filter, err := in.filter(f.Namespace)
	if err != nil {
		return err
	}
	found, err := a.console.Runs(r.Context(), filter)
	if err != nil {
		return err
	}
	listed := door.NewPage(found, pageRuns, func(r console.Run) any { return runCursor{r.ID} })
	data := runsPage{frame: f, Runs: listed.Items, Status: in.Status, Agent: in.Agent, Flow: in.Flow, Label: q.Get("label"), Statuses: statuses, MayDelete: map[events.RunID]bool{}}
	p, _ := authn.FromContext(r.Context())
	for _, run := range listed.Items {
		if mayDelete(p.Role, run) {
			data.MayDelete[run.ID] = true
		}
	}
	if n, err := strconv.Atoi(q.Get("deleted")); err == nil && n > 0 {
		data.Notice = deletedNotice(n)
	}
	if listed.NextCursor != "" {
		next := url.Values{"cursor": {listed.NextCursor}}
		for _, k := range []string{"status", "agent", "flow", "label"} {
			if v := q.Get(k); v != "" {
				next.Set(k, v)
			}
		}
		data.Next = next.Encode()
	}
	return web.Write(w, http.StatusOK, "runs", data)
}

type runPage struct {
	frame
	Run                    console.Run
	Why                    console.Reason
	Input, Output, Problem string
	Cost                   string
	Budgets                []budgetRow
	Plan                   []events.PlanItem
	Facts                  []factRow
	Artifacts              []artifactRow
	MoreArtifacts          bool
	Journal                []journalRow
	Edits                  []editRow
	Moves                  []string // to other versions
	Earlier                int64    // seq before which there is more; 0 for nothing
	MayCancel, MayDelete   bool
}

type journalRow struct {
	Seq                       int64
	At                        time.Time
	Kind, Cause, Worker, Data string
}

func (a *api) runPage(w http.ResponseWriter, r *http.Request) error {
	id, err := runIn(r)
	if err != nil {
		return err
	}
	f := frameOf(r, "", "run")
	situation, err := a.console.Situation(r.Context(), f.Namespace, id)
	if err != nil {
		return problem(err, "run %s", id)
	}
	run := situation.Run
	f.Title = run.Name
	if r.URL.Query().Get("done") == "cancel" {
		f.Notice = "The run was asked to stop."
	}
	before := run.Seq + 1
	if n, err := strconv.ParseInt(r.URL.Query().Get("before"), 10, 64); err == nil && n > 1 {
		before = n
	}
	after := max(before-1-pageJournal, 0)
	facts, err := a.console.Shown(r.Context(), f.Namespace, id, after, int(before-1-after))
	if err != nil {
		return err
	}
	p, _ := authn.FromContext(r.Context())
	data := runPage{
		frame: f, Run: run, Why: console.Why(situation), Input: pretty(run.Input), Output: pretty(run.Output), Problem: pretty(run.Error),
		MayCancel: p.Role.Allows(authn.Operator) && !events.Ended(run.Status) && run.Status != events.StatusCancelling,
		MayDelete: mayDelete(p.Role, run),
	}
	if whole, err := a.console.GetRun(r.Context(), f.Namespace, id); err == nil {
		data.known(whole)
		data.Moves, data.Edits = moveSentences(whole.Moves), editRows(whole.Edits)
	} else { // a damaged row; the journal below says more
		data.Notice = "What the run has written down cannot be read."
	}
	if after > 0 {
		data.Earlier = after + 1
	}
	for _, e := range facts {
		said := pretty(e.Data)
		if e.Elided > 0 {
			said = strings.ToValidUTF8(string(e.Data), "") + fmt.Sprintf("\n… %d bytes in all: holdfast runs get %s --journal --json", e.Elided, e.RunID)
		}
		data.Journal = append(data.Journal, journalRow{e.Seq, e.At, e.Kind, e.Cause, e.Worker, said})
	}
	slices.Reverse(data.Journal)
	return web.Write(w, http.StatusOK, "run", data)
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

// cancelForm is the page's button. The door has refused what other sites send.
func (a *api) cancelForm(w http.ResponseWriter, r *http.Request) error {
	id, err := runIn(r)
	if err != nil {
		return err
	}
	p, _ := authn.FromContext(r.Context())
	_, _, err = a.console.Command(r.Context(), p.Namespace, p.Name, "", id, console.Order{Kind: events.RunCancel, Reason: "from the console"})
	if err != nil && !errors.Is(err, console.ErrEnded) {
		return problem(err, "run %s", id)
	}
	http.Redirect(w, r, fmt.Sprintf("/ui/runs/%s?done=cancel", id), http.StatusSeeOther)
	return nil
}

func (a *api) signInPage(w http.ResponseWriter, r *http.Request) error {
	return web.Write(w, http.StatusOK, "signin", frameOf(r, "Sign in", ""))
}

// signIn keeps the token in a cookie that no script reads and no other site sends.
func (a *api) signIn(w http.ResponseWriter, r *http.Request) error {
	if err := a.door.CrossOrigin(r); err != nil {
		return err
	}
	if err := r.ParseForm(); err != nil {
		if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
			return err
		}
		return door.Error(http.StatusBadRequest, door.CodeBadRequest, "this is not a form that a browser sends")
	}
	token := strings.TrimSpace(r.PostFormValue("token"))
	if _, err := a.door.Verify(r.Context(), token); err != nil {
		if !errors.Is(err, authn.ErrUnknownToken) {
			return err
		}
		f := frameOf(r, "Sign in", "")
		f.Notice = "This token is unknown, revoked or expired."
		return web.Write(w, http.StatusUnauthorized, "signin", f)
	}
	http.SetCookie(w, &http.Cookie{Name: door.SessionCookie, Value: token, Path: "/", HttpOnly: true,
		SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https"})
	http.Redirect(w, r, "/", http.StatusSeeOther)
	return nil
}
