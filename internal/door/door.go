package door

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/telemetry"
	"github.com/holdfast-run/holdfast/web"
)

// Public is the role of routes that authenticate in another way (a signature)
// or need no authentication. It is deliberately not the zero Role.
const Public authn.Role = -1

// Defaults of Config.
const (
	DefaultMaxBody      = 1 << 20
	DefaultTimeout      = 25 * time.Second
	DefaultBodyTimeout  = 15 * time.Second
	DefaultWriteTimeout = time.Minute
	DefaultRecheck      = 15 * time.Second
)

// Config configures a Door.
type Config struct {
	Title   string // of the OpenAPI document, also the prefix of its schemas when doors are joined
	Version string
	// Verifier checks bearer tokens. Nil refuses every token.
	Verifier authn.Verifier
	// DevPrincipal, when set, is who a request without a token is, provided it
	// comes from loopback and names a loopback host. The header
	// Holdfast-Namespace chooses its namespace.
	DevPrincipal *authn.Principal
	// MaxBody is the largest body in bytes that is read; 0 is 1 MiB. An
	// operation's MaxBodyBytes overrides it.
	MaxBody int64
	// Timeout bounds one operation registered with Register, and a page; 0 is 25 s. Raw
	// routes have none.
	Timeout time.Duration
	// BodyTimeout bounds reading a request's body; 0 is 15 s. Each 128 KiB that
	// have arrived give it a second more, so that a large one may come over a slow
	// line and a byte now and then gains nothing.
	BodyTimeout time.Duration
	// WriteTimeout bounds the writing of an ordinary answer; 0 is a minute.
	// Streams bound each event instead.
	WriteTimeout time.Duration
	// Recheck is how often the token of a request that lasts is looked at again; 0 is
	// 15 s. See Lasting.
	Recheck time.Duration
	// SignIn, when set, is where browsers without a token are sent. It is told with
	// the parameter ReturnParameter where they wanted to go.
	SignIn string
	// Secure says that browsers reach the door over https only. Cookies are then bound
	// to it and to this host. A request that came over https counts as such without it.
	Secure bool
	// Audit keeps what is done at every route that changes something and knows who
	// asks; nil keeps nothing.
	Audit Auditor
	// Counts reads the numbers beside the entries of the menu; nil, and an error, leave
	// them to the script of the page.
	Counts func(ctx context.Context, namespace string) ([]web.Count, error)
	Log    *slog.Logger // nil logs nothing
	// Telemetry gets a span and a duration per request; nil records nothing.
	// The caller's trace context is taken up.
	Telemetry *telemetry.Telemetry
}

// Route is one registered route.
type Route struct {
	Method  string
	Pattern string // of net/http.ServeMux, without the method
	Role    authn.Role
	Work    bool // see Work

	timed bool // it has the time of an operation
}

// Door serves the routes of one service. Register and Raw belong before the
// first request; the handler is safe for concurrent use.
type Door struct {
	cfg    Config
	mux    *http.ServeMux
	api    huma.API
	routes []Route
	origin *http.CrossOriginProtection
}

// useProblem replaces huma's constructor of errors, which it keeps in a
// variable of its package.
var useProblem = sync.OnceFunc(func() {
	huma.NewError = func(status int, msg string, errs ...error) huma.StatusError {
		return fromHuma(status, msg, errs)
	}
	huma.NewErrorWithContext = func(ctx huma.Context, status int, msg string, errs ...error) huma.StatusError {
		p := fromHuma(status, msg, errs)
		if ctx != nil && p.RequestID == "" {
			p.RequestID = RequestID(ctx.Context())
		}
		return p
	}
})

// New returns a door without routes except GET /openapi.json.
func New(c Config) *Door {
	useProblem()
	if c.MaxBody == 0 {
		c.MaxBody = DefaultMaxBody
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.BodyTimeout == 0 {
		c.BodyTimeout = DefaultBodyTimeout
	}
	if c.WriteTimeout == 0 {
		c.WriteTimeout = DefaultWriteTimeout
	}
	if c.Recheck == 0 {
		c.Recheck = DefaultRecheck
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	d := &Door{cfg: c, mux: http.NewServeMux(), origin: http.NewCrossOriginProtection()}

	hc := huma.DefaultConfig(c.Title, c.Version)
	hc.CreateHooks = nil // no $schema links in bodies
	hc.OpenAPIPath, hc.DocsPath, hc.SchemasPath = "", "", ""
	hc.RejectUnknownQueryParameters = true
	hc.Components.Schemas = huma.NewMapRegistry("#/components/schemas/", schemaNames())
	hc.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"bearer": {Type: "http", Scheme: "bearer", Description: "a token of holdfast tokens create"},
	}
	d.api = huma.NewAPI(hc, &adapter{door: d})
	d.Raw("GET /openapi.json", Public, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/openapi+json")
		_ = json.NewEncoder(w).Encode(d.api.OpenAPI())
	}))
	return d
}

// Log is the log of the door's service.
func (d *Door) Log() *slog.Logger { return d.cfg.Log }

// OpenAPI is the description of what Register and RawOperation have registered.
func (d *Door) OpenAPI() *huma.OpenAPI { return d.api.OpenAPI() }

// Routes lists every route in the order of registration.
func (d *Door) Routes() []Route { return slices.Clone(d.routes) }

// metaRole is the key of a route's role in the metadata of its operation.
const metaRole = "holdfast.role"

// Register adds an operation that needs the role need. It panics on a route
// without a role and on a pattern that exists already. Errors of h become
// problems by From.
func Register[I, O any](d *Door, op huma.Operation, need authn.Role, h func(context.Context, *I) (*O, error)) {
	checkRole(op.Method+" "+op.Path, need)
	op.Metadata = maps.Clone(op.Metadata)
	if op.Metadata == nil {
		op.Metadata = map[string]any{}
	}
	op.Metadata[metaRole] = need
	if op.MaxBodyBytes == 0 {
		op.MaxBodyBytes = d.cfg.MaxBody
	}
	op.BodyReadTimeout = -1 // the door sets the deadline and takes it back
	declareRole(&op, need)
	if op.OperationID == "" {
		op.OperationID = huma.GenerateOperationID(op.Method, op.Path, (*O)(nil))
	}
	huma.Register(d.api, op, func(ctx context.Context, in *I) (*O, error) {
		ctx, cancel := context.WithTimeout(ctx, d.cfg.Timeout)
		defer cancel()
		bodySays(ctx, in)
		out, err := h(ctx, in)
		if err != nil {
			return nil, d.report(ctx, err)
		}
		return out, nil
	})
}

// Raw adds a plain handler that is not described: a page. The pattern is one of
// net/http.ServeMux with a method: "GET /ui/runs/{id}". The door checks
// role, origin and body limit; the handler answers errors with Fail.
func (d *Door) Raw(pattern string, need authn.Role, h http.Handler) {
	d.raw(pattern, Route{Role: need}, h)
}

func (d *Door) raw(pattern string, route Route, h http.Handler) {
	var ok bool
	if route.Method, route.Pattern, ok = strings.Cut(pattern, " "); !ok {
		panic(fmt.Sprintf("door: pattern %q has no method", pattern))
	}
	d.handle(route, "", d.cfg.MaxBody, h)
}

// handle adds a route; operation is its id, empty for a page.
func (d *Door) handle(route Route, operation string, maxBody int64, h http.Handler) {
	pattern := route.Method + " " + route.Pattern
	checkRole(pattern, route.Role)
	d.routes = append(d.routes, route)
	if operation == "" {
		operation = pattern
	}
	d.mux.Handle(pattern, d.guard(route, operation, maxBody, h))
}

func checkRole(route string, need authn.Role) {
	if need != Public && !slices.Contains(authn.Roles(), need) {
		panic(fmt.Sprintf("door: route %q declares no role", route))
	}
}

// adapter hangs huma's operations into the door's mux, each behind its role.
type adapter struct{ door *Door }

var _ huma.Adapter = (*adapter)(nil)

func (a *adapter) Handle(op *huma.Operation, handler func(huma.Context)) {
	need, _ := op.Metadata[metaRole].(authn.Role)
	a.door.handle(Route{Method: strings.ToUpper(op.Method), Pattern: op.Path, Role: need, Work: isWork(op)}, op.OperationID, op.MaxBodyBytes, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler(&humaContext{humago.NewContext(op, r, w)})
	}))
}

func (a *adapter) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.door.mux.ServeHTTP(w, r) }

// humaContext keeps huma from touching the connection's read deadline: one that
// is left behind after the body cancels a slow handler's context.
type humaContext struct{ base }

type base huma.Context

func (c *humaContext) SetReadDeadline(time.Time) error { return nil }
func (c *humaContext) Unwrap() huma.Context            { return c.base }
