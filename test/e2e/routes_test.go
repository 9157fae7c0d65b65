package e2e

import (
	"net/http"
	"strings"
	"testing"
)

// route is one way to a run.
type route struct{ method, path string }

// body is one that the route takes.
func (r route) body() []byte {
	switch {
	case r.method == http.MethodGet:
		return nil
	case strings.HasSuffix(r.path, "/budget"):
		return []byte(`{"budget":"modelCalls","to":200}`)
	case strings.HasSuffix(r.path, "/signal"):
		return []byte(`{"name":"hello"}`)
	case strings.HasSuffix(r.path, "/messages"):
		return []byte(`{"text":"hello"}`)
	}
	return []byte("{}")
}

// runRoutes lists every route about one run: those of the description, and
// those that a description does not hold, streams and pages.
func (d *deployment) runRoutes(t *testing.T) []route {
	t.Helper()
	var doc struct {
		Paths map[string]map[string]any `json:"paths"`
	}
	d.send(t, http.MethodGet, "/openapi.json", "", nil, nil).into(t, &doc)
	routes := []route{{http.MethodGet, "/v1/runs/{id}/events"}, {http.MethodGet, "/ui/runs/{id}"}, {http.MethodPost, "/ui/runs/{id}/cancel"}}
	for path, methods := range doc.Paths {
		if strings.Contains(path, "runs/{id}") {
			for m := range methods {
				routes = append(routes, route{strings.ToUpper(m), path})
			}
		}
	}
	if len(routes) < 10 {
		t.Fatalf("only %d routes about a run: %v", len(routes), routes)
	}
	return routes
}
