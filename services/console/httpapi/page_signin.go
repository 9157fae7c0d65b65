package httpapi

import (
	"errors"
	"net/http"
	"strings"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/web"
)

func (a *api) signInPages() {
	a.door.Raw("GET "+SignInPath, door.Public, page(a.signInPage))
	a.door.Raw("POST "+SignInPath, door.Public, page(a.signIn))
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
