package door

import "net/http"

// CrossOrigin refuses a request that another web site made a browser send. Raw
// public routes that change something and take no signature call it.
func (d *Door) CrossOrigin(r *http.Request) error { return d.ownPage(r, false) }

// ownPage reports whether a request that changes something was sent by a page of
// this address, as far as its headers say: Sec-Fetch-Site, or the Origin. What has
// neither is no browser of today, and a cookie is only for browsers: with one it is
// refused, because what is sent may be somebody else's doing.
func (d *Door) ownPage(r *http.Request, byCookie bool) error {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return nil
	}
	if err := d.origin.Check(r); err != nil {
		return Error(http.StatusForbidden, CodeCrossOrigin, "the request comes from another web site; send it from a page of this one, or with a token in the Authorization header")
	}
	if byCookie && r.Header.Get("Sec-Fetch-Site") == "" && r.Header.Get("Origin") == "" {
		return Error(http.StatusForbidden, CodeCrossOrigin, "the request does not say which page it comes from (no Origin, no Sec-Fetch-Site); a program sends its token in the Authorization header")
	}
	return nil
}
