package door

import (
	"net/http"
	"net/url"
	"strings"
	"time"
)

// SessionCookie carries the session of a browser that signed in. What changes
// something must also come from a page of this address.
const SessionCookie = "holdfast_session"

// ReturnParameter says at the sign-in where somebody wanted to go.
const ReturnParameter = "return"

// hostPrefix makes browsers keep a cookie that is secure, of this host alone and of
// all its paths; no other host and no page without TLS can set one of that name.
const hostPrefix = "__Host-"

// secure reports whether the browser sent r over https.
func (d *Door) secure(r *http.Request) bool {
	return d.cfg.Secure || r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https"
}

func (d *Door) cookieName(r *http.Request, name string) string {
	if d.secure(r) {
		return hostPrefix + name
	}
	return name
}

// Cookie returns what SetCookie has set, empty when there is none. Over https a
// cookie without the prefix counts for nothing: others could have set it.
func (d *Door) Cookie(r *http.Request, name string) string {
	c, err := r.Cookie(d.cookieName(r, name))
	if err != nil {
		return ""
	}
	return c.Value
}

// SetCookie sets a cookie that no script reads and no form of another site sends.
// It lasts as long as the browser when lasts is zero; an empty value takes it away.
func (d *Door) SetCookie(w http.ResponseWriter, r *http.Request, name, value string, lasts time.Duration) {
	c := &http.Cookie{Name: d.cookieName(r, name), Value: value, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: d.secure(r), MaxAge: int(lasts.Seconds())}
	if value == "" {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
}

// signIn is where the sender of r signs in and then comes back.
func (d *Door) signIn(r *http.Request) string {
	if to := LocalPath(r.URL.RequestURI()); to != "/" {
		return d.cfg.SignIn + "?" + url.Values{ReturnParameter: {to}}.Encode()
	}
	return d.cfg.SignIn
}

// LocalPath returns to when it is a path of this address, else "/". Browsers take
// "//host", "/\host" and what has control characters in it for other places.
func LocalPath(to string) string {
	if len(to) > 2000 || !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") || strings.ContainsFunc(to, func(c rune) bool { return c <= ' ' || c == '\\' || c >= 0x7f }) {
		return "/"
	}
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || strings.HasPrefix(u.Path, "//") || strings.Contains(u.Path, `\`) {
		return "/"
	}
	return to
}
