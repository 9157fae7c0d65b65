package door

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/propagation"

	"github.com/holdfast-run/holdfast/internal/authn"
)

// bodyRate is how many bytes of a body give it a second more.
const bodyRate = 128 << 10

type doorKey struct{}

type requestIDKey struct{}

// RequestID is the id of the request that ctx belongs to; empty outside one.
func RequestID(ctx context.Context) string {
	id, _ := ctx.Value(requestIDKey{}).(string)
	return id
}

// Handler serves every route of the door.
func (d *Door) Handler() http.Handler {
	routes := d.observed()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get("X-Request-Id")
		if !plainID(id) {
			id = uuid.NewString()
		}
		ctx := context.WithValue(r.Context(), requestIDKey{}, id)
		ctx = context.WithValue(ctx, doorKey{}, d)
		r = r.WithContext(ctx)
		rec := &recorder{ResponseWriter: w}
		setHeaders(rec.Header(), id)
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(d.cfg.WriteTimeout))
		if r.Body != nil && r.Body != http.NoBody {
			// Also for who is refused: net/http reads on before it answers.
			r.Body = d.timed(w, r.Body)
		}

		begun := time.Now()
		_, pattern := d.mux.Handler(r)
		defer func() {
			if v := recover(); v != nil {
				d.recovered(rec, r, v)
			}
			d.cfg.Log.LogAttrs(ctx, slog.LevelDebug, "request served",
				slog.String("method", r.Method), slog.String("route", pattern), slog.Int("status", rec.status),
				slog.Duration("took", time.Since(begun)), slog.String("request_id", id))
		}()
		if pattern == "" {
			d.noRoute(rec, r)
			return
		}
		routes.ServeHTTP(rec, r)
	})
}

// observed is the mux with spans and durations around it. Streams have neither:
// they last as long as their reader likes. Nor have callbacks and
// links: a span holds the path, and there it is the secret.
func (d *Door) observed() http.Handler {
	t := d.cfg.Telemetry
	if t == nil {
		return d.mux
	}
	return otelhttp.NewHandler(d.mux, "http",
		otelhttp.WithTracerProvider(t.TracerProvider), otelhttp.WithMeterProvider(t.MeterProvider),
		otelhttp.WithPropagators(propagation.TraceContext{}),
		otelhttp.WithFilter(func(r *http.Request) bool {
			return !(r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/events")) && !strings.HasPrefix(r.URL.Path, "/v1/callbacks/") && !strings.HasPrefix(r.URL.Path, "/decide/")
		}))
}

func setHeaders(h http.Header, id string) {
	h.Set("X-Request-Id", id)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin") // without one, forms would be sent with the origin null
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Cache-Control", "no-store")
}

func plainID(s string) bool {
	if s == "" || len(s) > 100 {
		return false
	}
	for _, c := range []byte(s) {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_' || c == '.') {
			return false
		}
	}
	return true
}

// guard lets a request through to h when its sender may use the route and its
// body may be read.
func (d *Door) guard(route Route, action string, maxBody int64, h http.Handler) http.Handler {
	need, audits := route.Role, d.cfg.Audit != nil && route.Audits()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var who authn.Principal
		if need != Public {
			p, err := d.authenticate(r)
			if err != nil {
				if d.cfg.SignIn != "" && wantsPage(r) && From(err).Status == http.StatusUnauthorized {
					http.Redirect(w, r, d.signIn(r), http.StatusSeeOther)
					return
				}
				Fail(w, r, err)
				return
			}
			r = r.WithContext(authn.NewContext(r.Context(), p))
			who = p
			if !p.Role.Allows(need) {
				if audits {
					d.refusedAct(r, p, route, action)
				}
				Fail(w, r, Error(http.StatusForbidden, CodeForbidden,
					fmt.Sprintf("%s has the role %s; this needs %s", p.Name, p.Role, need)))
				return
			}
		}
		if err := d.limitBody(w, r, maxBody); err != nil {
			Fail(w, r, err)
			return
		}
		if route.timed {
			ctx, cancel := context.WithTimeout(r.Context(), d.cfg.Timeout)
			defer cancel()
			r = r.WithContext(ctx) // here, since the audit reads the form that a handler has read
		}
		if audits {
			d.audited(w, r, who, route, action, h)
			return
		}
		h.ServeHTTP(w, r)
	})
}

func wantsPage(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html")
}

// limitBody bounds a body's size, unless its handler does.
func (d *Door) limitBody(w http.ResponseWriter, r *http.Request, limit int64) error {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	if limit == OwnBody {
		return nil
	}
	if enc := r.Header.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		return Error(http.StatusUnsupportedMediaType, CodeMediaType, "the body is compressed; send it plain")
	}
	if limit <= 0 {
		limit = d.cfg.MaxBody
	}
	if r.ContentLength > limit {
		return bodyTooLarge(limit, r.ContentLength)
	}
	r.Body = http.MaxBytesReader(w, r.Body, limit)
	return nil
}

// timed gives a body the time that it may take.
func (d *Door) timed(w http.ResponseWriter, body io.ReadCloser) io.ReadCloser {
	b := &timedBody{ReadCloser: body, ctl: http.NewResponseController(w), until: time.Now().Add(d.cfg.BodyTimeout)}
	_ = b.ctl.SetReadDeadline(b.until)
	return b
}

// timedBody moves the read deadline as the body arrives, and takes it back once
// the body is complete; one that stays would cancel the request while its handler
// works.
type timedBody struct {
	io.ReadCloser
	ctl      *http.ResponseController
	until    time.Time
	read     int64
	complete bool
}

// slowBodyError tells a body that took too long from a database that did.
type slowBodyError struct{ error }

// Timeout and Temporary implement net.Error, by which huma knows it.
func (*slowBodyError) Timeout() bool   { return true }
func (*slowBodyError) Temporary() bool { return true }
func (e *slowBodyError) Unwrap() error { return e.error }

func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	earned := b.read / bodyRate
	b.read += int64(n)
	switch {
	case errors.Is(err, io.EOF) && !b.complete:
		b.complete = true
		_ = b.ctl.SetReadDeadline(time.Time{})
	case err == nil && b.read/bodyRate > earned:
		_ = b.ctl.SetReadDeadline(b.until.Add(time.Duration(b.read/bodyRate) * time.Second))
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = &slowBodyError{err}
	}
	return n, err
}

// Fail answers a raw route's request with the problem that err is, and logs
// what went wrong on our side. At the path of a page, who takes HTML gets a page with
// the problem's words; everybody else gets the document.
func Fail(w http.ResponseWriter, r *http.Request, err error) {
	p := From(err)
	d, ok := r.Context().Value(doorKey{}).(*Door)
	if ok {
		p = d.report(r.Context(), err)
	}
	d.answer(w, r, p)
}

// report turns err into the problem to answer with and logs it once.
func (d *Door) report(ctx context.Context, err error) *Problem {
	p := *From(err)
	p.RequestID = RequestID(ctx)
	switch {
	case p.Status == http.StatusInternalServerError:
		d.cfg.Log.ErrorContext(ctx, "request failed", "err", err, "code", p.Code, "request_id", p.RequestID)
	case p.Status >= 500 && ctx.Err() == nil:
		d.cfg.Log.WarnContext(ctx, "request not served", "err", err, "code", p.Code, "request_id", p.RequestID)
	}
	return &p
}

func (d *Door) recovered(w *recorder, r *http.Request, v any) {
	if v == http.ErrAbortHandler {
		panic(v) // net/http's own way to cut a connection
	}
	d.cfg.Log.ErrorContext(r.Context(), "handler panicked", "err", fmt.Sprint(v),
		"request_id", RequestID(r.Context()), "stack", string(debug.Stack()))
	if w.status != 0 {
		panic(http.ErrAbortHandler) // half an answer must not look whole
	}
	p := Error(http.StatusInternalServerError, CodeInternal, "something went wrong here; the log has the request id")
	p.RequestID = RequestID(r.Context())
	d.answer(w, r, p)
}

// noRoute answers what the mux does not know: 404, 405, or its own redirect.
func (d *Door) noRoute(w http.ResponseWriter, r *http.Request) {
	if readByPeople(r) { // its page has the menu for who is signed in
		if who, err := d.authenticate(r); err == nil {
			r = r.WithContext(authn.NewContext(r.Context(), who))
		}
	}
	probe := &recorder{ResponseWriter: discard{header: http.Header{}}}
	d.mux.ServeHTTP(probe, r)
	switch probe.status {
	case http.StatusMethodNotAllowed:
		w.Header().Set("Allow", probe.Header().Get("Allow"))
		Fail(w, r, Error(http.StatusMethodNotAllowed, CodeMethod, fmt.Sprintf("%s takes %s", r.URL.Path, probe.Header().Get("Allow"))))
	default:
		Fail(w, r, NotFound("there is no %s; /openapi.json lists what there is", r.URL.Path))
	}
}

type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(b []byte) (int, error) { return len(b), nil }
func (d discard) WriteHeader(int)             {}

// recorder remembers the status of an answer.
type recorder struct {
	http.ResponseWriter
	status int
}

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
