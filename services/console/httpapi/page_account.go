package httpapi

import (
	"net/http"
	"strings"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/services/console"
	"github.com/holdfast-run/holdfast/web"
)

// AccountPath shows who is signed in, as what, and where else.
const AccountPath = "/ui/account"

// pageSessions is how many sessions the page shows.
const pageSessions = 200

func (a *api) accountPages() {
	a.door.Page("GET "+AccountPath, authn.Viewer, a.accountPage)
	a.door.Page("POST "+AccountPath+"/turn", authn.Viewer, a.turnForm)
	a.door.Page("POST "+AccountPath+"/sessions/{id}/revoke", authn.Viewer, a.revokeForm)
}

type accountPage struct {
	frame
	This           *console.Session // nil: not by a session
	ThisID         string
	Groups         []string
	Others         []console.SessionGrant // that this session may turn to
	Mine, All      []console.Session
	More, Operator bool
	Admin          bool
}

func (a *api) accountPage(w http.ResponseWriter, r *http.Request) error {
	p, _ := authn.FromContext(r.Context())
	data := accountPage{frame: door.FrameOf(r, "Your account"), Admin: p.Role == authn.Admin, Operator: p.Role.Allows(authn.Operator), Groups: p.Groups}
	switch r.URL.Query().Get("done") {
	case "turned":
		data.Notice = "You are " + p.Role.String() + " in " + p.Namespace + " now."
	case "revoked":
		data.Notice = "The session was ended. It counts nowhere after two seconds."
	}
	if p.SessionID != "" {
		mine, err := a.console.Sessions(r.Context(), console.SessionFilter{Namespace: p.Namespace, Of: p.SessionID, Limit: pageSessions})
		if err != nil {
			return err
		}
		data.Mine = mine
		for i, s := range mine {
			if s.ID == p.SessionID {
				data.This, data.ThisID = &mine[i], s.ID
				for _, g := range s.Grants {
					if g.Namespace != p.Namespace || g.Role != p.Role.String() {
						data.Others = append(data.Others, g)
					}
				}
			}
		}
	}
	if data.Admin {
		all, err := a.console.Sessions(r.Context(), console.SessionFilter{Namespace: p.Namespace, Limit: pageSessions + 1})
		if err != nil {
			return err
		}
		data.More = len(all) > pageSessions
		data.All = all[:min(len(all), pageSessions)]
	}
	return web.Write(w, http.StatusOK, "account", data)
}

// turnForm makes the session another of the person's roles or namespaces, under a new id.
func (a *api) turnForm(w http.ResponseWriter, r *http.Request) error {
	if err := a.postForm(r); err != nil {
		return err
	}
	p, _ := authn.FromContext(r.Context())
	namespace, role, _ := strings.Cut(r.PostFormValue("to"), "/")
	cookie := authn.NewSession()
	hash := authn.HashToken(cookie)
	if p.SessionID == "" {
		return door.Error(http.StatusConflict, door.CodeBadRequest, "only a session turns to another role; you are here with a token")
	}
	if err := a.console.TurnSession(r.Context(), p.SessionID, hash[:], console.SessionGrant{Namespace: namespace, Role: role}); err != nil {
		return problem(err, "role %q of yours", role+" in "+namespace)
	}
	a.door.SetCookie(w, r, door.SessionCookie, cookie, a.people.Lifetime)
	http.Redirect(w, r, AccountPath+"?done=turned", http.StatusSeeOther)
	return nil
}

// revokeForm ends a session: everybody their own, an admin each of the namespace.
func (a *api) revokeForm(w http.ResponseWriter, r *http.Request) error {
	if err := a.postForm(r); err != nil {
		return err
	}
	p, _ := authn.FromContext(r.Context())
	of := p.SessionID
	switch {
	case p.Role == authn.Admin:
		of = ""
	case of == "":
		return door.NotFound("there is no session of yours: you are here with a token, and an admin ends those of others")
	}
	id := r.PathValue("id")
	if _, err := a.console.RevokeSession(r.Context(), p.Namespace, id, p.Name, of); err != nil {
		return problem(err, "session %s", id)
	}
	if id == p.SessionID {
		a.door.SetCookie(w, r, door.SessionCookie, "", 0)
		http.Redirect(w, r, SignInPath+"?done=out", http.StatusSeeOther)
		return nil
	}
	http.Redirect(w, r, AccountPath+"?done=revoked", http.StatusSeeOther)
	return nil
}
