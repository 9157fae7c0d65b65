package httpapi

import (
	"net/http"
	"strings"

	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/web"
)

// problemPage says to a person what is wrong with what was asked for.
type problemPage struct {
	frame
	Detail, Back string
}

// sheet is page for who reads with a browser: what cannot be shown is said on a page. A
// program that asks for the same address gets the problem document.
func sheet(h func(w http.ResponseWriter, r *http.Request) error) http.Handler {
	return page(func(w http.ResponseWriter, r *http.Request) error {
		err := h(w, r)
		if err == nil || !strings.Contains(r.Header.Get("Accept"), "text/html") {
			return err
		}
		p := door.From(err)
		if p.Status >= http.StatusInternalServerError {
			return err // it is logged
		}
		title := "Not done"
		switch p.Status {
		case http.StatusNotFound:
			title = "Not found"
		case http.StatusGone:
			title = "Deleted"
		}
		return web.Write(w, p.Status, "problem", problemPage{frameOf(r, title, "runs"), p.Detail, "/"})
	})
}
