package httpapi

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/internal/oidc"
	"github.com/holdfast-run/holdfast/services/console"
	"github.com/holdfast-run/holdfast/web"
)

// Defaults of SignIn.
const (
	DefaultSession     = 12 * time.Hour
	DefaultSessionIdle = 2 * time.Hour
)

// SignIn is how people sign in with a browser.
type SignIn struct {
	// Provider names people; nil: only tokens sign in.
	Provider *oidc.Provider
	Mapping  oidc.Mapping
	Title    string // of the provider, on the button
	// PublicURL is the one address that the provider sends people back to.
	PublicURL string
	// Lifetime and Idle end a session: always, and unused. Zero is the default.
	Lifetime, Idle time.Duration
}

func (a *api) signInPages() {
	a.door.Page("GET "+SignInPath, door.Public, a.signInPage)
	a.door.Page("POST "+SignInPath, door.Public, a.signIn)
	a.door.Page("GET "+StartPath, door.Public, a.startSignIn)
	a.door.Page("GET "+CallbackPath, door.Public, a.finishSignIn)
	a.door.Page("POST /ui/sign-out", door.Public, a.signOut)
}

type signInPage struct {
	frame
	Return, Provider string
	StartPath        string
}

func (a *api) signInForm(w http.ResponseWriter, r *http.Request, status int, back, notice string) error {
	f := door.FrameOf(r, "Sign in")
	f.Notice = notice
	data := signInPage{frame: f, Return: door.LocalPath(back)}
	if a.people.Provider != nil {
		data.Provider = a.people.Title
		data.StartPath = StartPath + "?" + url.Values{door.ReturnParameter: {data.Return}}.Encode()
	}
	return web.Write(w, status, "signin", data)
}

func (a *api) signInPage(w http.ResponseWriter, r *http.Request) error {
	notice := ""
	if r.URL.Query().Get("done") == "out" {
		notice = "You are signed out here. At the sign-in provider you may still be signed in."
	}
	return a.signInForm(w, r, http.StatusOK, r.URL.Query().Get(door.ReturnParameter), notice)
}

// postForm reads a form that a page of ours sent.
func (a *api) postForm(r *http.Request) error {
	if err := a.door.CrossOrigin(r); err != nil {
		return err
	}
	_, err := door.Form(r)
	return err
}

// signIn begins a session of a token.
func (a *api) signIn(w http.ResponseWriter, r *http.Request) error {
	if err := a.postForm(r); err != nil {
		return err
	}
	back := door.LocalPath(r.PostFormValue(door.ReturnParameter))
	token := strings.TrimSpace(r.PostFormValue("token"))
	var p authn.Principal
	err := authn.ErrUnknownToken
	if !authn.IsSession(token) {
		p, err = a.door.Verify(r.Context(), token)
	}
	if err != nil {
		if !errors.Is(err, authn.ErrUnknownToken) {
			return err
		}
		return a.signInForm(w, r, http.StatusUnauthorized, back, "This token is unknown, revoked or expired.")
	}
	if p.TokenID == "" { // one that the database does not know: a test's
		a.door.SetCookie(w, r, door.SessionCookie, token, 0)
		http.Redirect(w, r, back, http.StatusSeeOther)
		return nil
	}
	s := console.Session{Name: p.Name, Groups: p.Groups, TokenID: p.TokenID, Grants: []console.SessionGrant{{Namespace: p.Namespace, Role: p.Role.String()}}}
	return a.begin(w, r, s, back)
}

// begin starts a session under an id that nobody knew before, and ends the one that
// the browser had.
func (a *api) begin(w http.ResponseWriter, r *http.Request, s console.Session, back string) error {
	cookie := authn.NewSession()
	hash := authn.HashToken(cookie)
	s.Hash, s.Lifetime, s.Idle, s.UserAgent = hash[:], a.people.Lifetime, a.people.Idle, userAgent(r)
	added, err := a.console.AddSession(r.Context(), s)
	if err != nil {
		return err
	}
	if err := a.door.Record(r, principalOf(added), "sign-in", http.StatusSeeOther); err != nil {
		return err // nobody has the cookie
	}
	if err := a.end(r); err != nil {
		return err
	}
	a.door.SetCookie(w, r, door.SessionCookie, cookie, a.people.Lifetime)
	http.Redirect(w, r, back, http.StatusSeeOther)
	return nil
}

// end revokes the session that the browser shows, if it counts.
func (a *api) end(r *http.Request) error {
	cookie := a.door.Cookie(r, door.SessionCookie)
	if !authn.IsSession(cookie) {
		return nil
	}
	p, err := a.door.Verify(r.Context(), cookie)
	if errors.Is(err, authn.ErrUnknownToken) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := a.door.Record(r, p, "sign-out", http.StatusSeeOther); err != nil {
		return err
	}
	_, err = a.console.RevokeSession(r.Context(), p.Namespace, p.SessionID, p.Name, "")
	return err
}

func principalOf(s console.Session) authn.Principal {
	p := authn.Principal{Name: s.Name, Namespace: s.Namespace, TokenID: s.TokenID, SessionID: s.ID}
	p.Role, _ = authn.ParseRole(s.Role) // the database has checked it
	return p
}

// signOut ends the session and takes the cookie away. It is for everybody: the session
// may have ended by itself.
func (a *api) signOut(w http.ResponseWriter, r *http.Request) error {
	if err := a.postForm(r); err != nil {
		return err
	}
	if err := a.end(r); err != nil {
		return err
	}
	a.door.SetCookie(w, r, door.SessionCookie, "", 0)
	http.Redirect(w, r, SignInPath+"?done=out", http.StatusSeeOther)
	return nil
}

// userAgent is what the browser calls itself, cut and cleaned.
func userAgent(r *http.Request) string {
	text := strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' {
			return -1
		}
		return c
	}, r.UserAgent())
	return text[:min(len(text), 200)]
}
