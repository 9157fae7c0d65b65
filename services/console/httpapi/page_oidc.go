package httpapi

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/internal/oidc"
	"github.com/holdfast-run/holdfast/services/console"
)

// Where people go to the provider, and where it sends them back to.
const (
	StartPath    = SignInPath + "/start"
	CallbackPath = SignInPath + "/callback"
)

// flowCookie keeps a sign-in in the browser that began it, until it is finished.
const (
	flowCookie = "holdfast_signin"
	flowFor    = 10 * time.Minute
)

// flow is what the cookie holds.
type flow struct {
	oidc.Flow
	Return string
}

const away = "The sign-in provider cannot be reached, so nobody can sign in with it now. Who is signed in stays so, and tokens work."

// startSignIn sends the browser to the provider. It changes nothing here: what the
// sign-in needs goes with the browser.
func (a *api) startSignIn(w http.ResponseWriter, r *http.Request) error {
	back := door.LocalPath(r.URL.Query().Get(door.ReturnParameter))
	if a.people.Provider == nil {
		return a.signInForm(w, r, http.StatusNotFound, back, "Only tokens sign in here; no provider is set up.")
	}
	// The provider knows one address of ours, and a cookie that is set at another
	// does not come back.
	if home, err := url.Parse(a.people.PublicURL); err == nil && !strings.EqualFold(home.Host, r.Host) {
		if r.URL.Query().Get("here") != "" {
			return a.signInForm(w, r, http.StatusMisdirectedRequest, back, "This address is not "+a.people.PublicURL+", where people sign in. Something between it and the console changes the host.")
		}
		http.Redirect(w, r, a.people.PublicURL+StartPath+"?"+url.Values{door.ReturnParameter: {back}, "here": {"1"}}.Encode(), http.StatusSeeOther)
		return nil
	}
	begun, to, err := a.people.Provider.Start(r.Context())
	if err != nil {
		return a.notSignedIn(w, r, back, err)
	}
	raw, err := json.Marshal(flow{Flow: begun, Return: back})
	if err != nil {
		return err
	}
	a.door.SetCookie(w, r, flowCookie, base64.RawURLEncoding.EncodeToString(raw), flowFor)
	http.Redirect(w, r, to, http.StatusSeeOther)
	return nil
}

// finishSignIn begins the session of a person who comes back from the provider.
func (a *api) finishSignIn(w http.ResponseWriter, r *http.Request) error {
	var f flow
	if raw, err := base64.RawURLEncoding.DecodeString(a.door.Cookie(r, flowCookie)); err == nil {
		_ = json.Unmarshal(raw, &f) // what is none has no state, and that is refused
	}
	back := door.LocalPath(f.Return)
	if a.people.Provider == nil {
		return a.signInForm(w, r, http.StatusNotFound, "/", "Only tokens sign in here; no provider is set up.")
	}
	if err := a.people.Provider.Returned(f.Flow, r.URL.Query()); err != nil {
		return a.notSignedIn(w, r, back, err)
	}
	a.door.SetCookie(w, r, flowCookie, "", 0)
	state := sha256.Sum256([]byte(f.State))
	switch first, err := a.console.FinishSignIn(r.Context(), state[:]); {
	case err != nil:
		return err
	case !first:
		return a.notSignedIn(w, r, back, &oidc.RefusedError{Reason: "This sign-in was finished already. Begin anew."})
	}
	p, err := a.people.Provider.Finish(r.Context(), f.Flow, r.URL.Query())
	if err != nil {
		return a.notSignedIn(w, r, back, err)
	}
	s := console.Session{Name: p.Name, Groups: p.Deciding(), Issuer: p.Issuer, Subject: p.Subject}
	for _, g := range a.people.Mapping.Grants(p.Groups) {
		s.Grants = append(s.Grants, console.SessionGrant{Namespace: g.Namespace, Role: g.Role.String()})
	}
	if len(s.Grants) == 0 {
		return a.notSignedIn(w, r, back, &oidc.RefusedError{Reason: noAccess(p)})
	}
	err = a.begin(w, r, s, back)
	if errors.Is(err, console.ErrNameTaken) {
		return a.notSignedIn(w, r, back, &oidc.RefusedError{Reason: fmt.Sprintf("There is a token with your name, %s, so it would not be clear who acts. An administrator revokes it and makes one with another name.", p.Name)})
	}
	return err
}

// noAccess says why somebody whom the provider knows may do nothing here.
func noAccess(p oidc.Person) string {
	in := "The provider names no groups of yours"
	if len(p.Groups) > 0 {
		in = "Your groups there are " + strings.Join(p.Groups[:min(len(p.Groups), 10)], ", ")
		if len(p.Groups) > 10 {
			in += fmt.Sprintf(" and %d more", len(p.Groups)-10)
		}
	}
	return fmt.Sprintf("You are %s, and none of your groups has access here. %s. An administrator gives a group access with --oidc-map.", p.Name, in)
}

// notSignedIn shows the sign-in page with the reason, and logs what is not for the person.
func (a *api) notSignedIn(w http.ResponseWriter, r *http.Request, back string, err error) error {
	if refused, ok := errors.AsType[*oidc.RefusedError](err); ok {
		a.door.Log().WarnContext(r.Context(), "sign-in refused", "err", err, "request_id", door.RequestID(r.Context()))
		return a.signInForm(w, r, http.StatusForbidden, back, refused.Reason)
	}
	if errors.Is(err, oidc.ErrAway) {
		a.door.Log().WarnContext(r.Context(), "sign-in provider not reached", "err", err, "request_id", door.RequestID(r.Context()))
		return a.signInForm(w, r, http.StatusServiceUnavailable, back, away)
	}
	return err
}
