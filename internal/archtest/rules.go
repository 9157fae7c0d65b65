// Package archtest holds the project to its own rules: who may import whom,
// which library lives behind which adapter, who may read the environment, and
// that every package says what it is for.
//
// Its tests read source files and run nothing else. A folder that no rule
// covers fails, so adding a folder means deciding what it may know.
package archtest

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Module is the import path of the repository.
const Module = "github.com/holdfast-run/holdfast/"

// rule says what the Go files of a folder may import besides the standard
// library and the folder itself. A trailing slash stands for everything below.
type rule struct {
	may  []string // folders of this module
	libs []string // import paths of libraries, with everything below them
}

// kit is what every package may use.
var kit = []string{"internal/fault", "internal/lifecycle", "internal/config", "internal/telemetry", "internal/failpoint"}

const (
	pgx        = "github.com/jackc/pgx/v5"
	natsClient = "github.com/nats-io/nats.go"
	natsServer = "github.com/nats-io/nats-server/v2"
	huma       = "github.com/danielgtaylor/huma/v2"
	otel       = "go.opentelemetry.io/otel"
	otelHTTP   = "go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	prometheus = "github.com/prometheus/client_golang"
	yaml       = "github.com/goccy/go-yaml"
	uuid       = "github.com/google/uuid"
)

// rules maps folders to what they may import. The longest folder that contains
// a package decides.
var rules = map[string]rule{
	"pkg/events": {},
	"pkg/spec":   {may: []string{"pkg/events"}, libs: []string{yaml, "cel.dev/cel-go", "cel.dev/expr", "github.com/santhosh-tekuri/jsonschema/v6", "google.golang.org/protobuf", "golang.org/x/text"}},
	"pkg/client": {may: []string{"pkg/events", "pkg/spec"}},

	"internal/fault":       {},
	"internal/lifecycle":   {},
	"internal/config":      {},
	"internal/failpoint":   {},
	"internal/telemetry":   {may: kit, libs: []string{otel, prometheus}},
	"internal/dirlock":     {},
	"internal/watchdog":    {},
	"internal/bus":         {may: plus(kit, "pkg/events"), libs: []string{natsClient, otel}},
	"internal/pg":          {may: plus(kit, "pkg/events"), libs: []string{pgx, "github.com/pressly/goose/v3", "github.com/exaring/otelpgx", otel}},
	"internal/certtest":    {},
	"internal/clocktest":   {},
	"internal/linetest":    {},
	"internal/mcptest":     {},
	"internal/mdtest":      {},
	"internal/toolfile":    {may: plus(kit, "pkg/"), libs: []string{"go.yaml.in/yaml/v3"}},
	"internal/blob":        {may: plus(kit, "pkg/", "internal/pg"), libs: []string{pgx}},
	"internal/follow":      {may: plus(kit, "pkg/events")},
	"internal/authn":       {may: plus(kit, "pkg/", "internal/pg"), libs: []string{pgx}},
	"internal/menu":        {may: plus(kit, "web"), libs: []string{pgx}},
	"internal/audit":       {may: plus(kit, "internal/door", "internal/pg"), libs: []string{pgx}},
	"internal/oidc":        {may: plus(kit, "internal/authn"), libs: []string{"github.com/coreos/go-oidc/v3/oidc", "golang.org/x/oauth2"}},
	"internal/oidctest":    {libs: []string{"github.com/go-jose/go-jose/v4"}},
	"internal/door":        {may: plus(kit, "pkg/", "internal/authn", "internal/pg", "web"), libs: []string{huma, uuid, otel, otelHTTP, pgx + "/pgconn"}},
	"internal/catalog":     {may: plus(kit, "pkg/", "internal/pg", "internal/bus"), libs: []string{pgx}},
	"internal/egress":      {may: plus(kit, "pkg/")},
	"internal/stdwebhooks": {},
	"internal/natsdev":     {may: plus(kit, "internal/dirlock"), libs: []string{natsClient, natsServer}},
	"internal/pgdev":       {may: plus(kit, "internal/dirlock", "internal/watchdog")},
	"internal/bigtest":     {may: []string{"internal/linetest"}, libs: []string{pgx}},
	"internal/pgtest":      {may: plus(kit, "internal/pg", "internal/pgdev"), libs: []string{pgx}},
	"internal/bustest":     {may: plus(kit, "internal/bus", "internal/natsdev"), libs: []string{natsClient, natsServer}},
	"internal/archtest":    {},
	"internal/browsertest": {libs: []string{"github.com/chromedp"}},
	"internal/scriptmodel": {may: plus(kit, "pkg/")},
	// The demo is a program of its own: it sees the product from outside.
	"internal/demo": {may: plus(kit, "pkg/", "internal/lab", "internal/scriptmodel", "internal/dirlock", "internal/pgdev", "internal/natsdev"), libs: []string{pgx}},
	"internal/lab":  {may: kit},
	// So is the chaos suite.
	"internal/chaos": {may: plus(kit, "pkg/", "internal/lab", "internal/scriptmodel", "internal/pgdev", "internal/stdwebhooks"), libs: []string{pgx}},

	// The bench starts the product as a process; what it compares with is its own.
	"internal/bench": {may: plus(kit, "pkg/", "internal/lab", "internal/pg", "internal/pgdev", "internal/scriptmodel"), libs: []string{pgx, natsClient}},

	"services/trigger":         domain(),
	"services/trigger/webhook": adapter("trigger", []string{"internal/stdwebhooks"}),
	"services/trigger/cron":    adapter("trigger", nil),
	"services/runner":          domain(),
	"services/runner/model":    adapter("runner", []string{"internal/egress"}, "github.com/anthropics/anthropic-sdk-go/v2", "github.com/openai/openai-go/v3", "github.com/tidwall/gjson"),
	// What tests leave behind is judged by the real adapters, also from outside.
	"services/runner/journaltest": adapter("runner", []string{"services/runner/model", "internal/scriptmodel", "internal/egress"}),

	"services/tools":            domain(),
	"services/tools/kind":       adapter("tools", []string{"internal/egress", "internal/stdwebhooks", "internal/watchdog"}, "golang.org/x/net/html", "github.com/modelcontextprotocol/go-sdk"),
	"services/approvals":        domain(),
	"services/approvals/notify": adapter("approvals", []string{"internal/egress", "internal/stdwebhooks"}),
	"services/console":          domain(),

	"web":         {},
	"examples":    {may: []string{"pkg/"}},
	"test":        {may: []string{"pkg/", "internal/"}, libs: []string{pgx, natsClient}},
	"test/e2e":    {may: []string{"pkg/", "internal/", "services/runner", "services/runner/journaltest"}, libs: []string{pgx, natsClient, "github.com/modelcontextprotocol/go-sdk"}},
	"test/deploy": {may: []string{"pkg/", "internal/"}, libs: []string{pgx, natsClient, "github.com/santhosh-tekuri/jsonschema/v6"}},
	// A module of its own: what validates as Kubernetes does takes minutes to compile.
	"test/kube": {libs: []string{"helm.sh/helm/v4", "k8s.io/kubernetes", "k8s.io/pod-security-admission"}},
	// The simulation calls the pure decisions of all services.
	"test/sim":     {may: []string{"pkg/", "services/runner", "services/tools", "services/approvals", "services/trigger", "services/console"}},
	"scripts":      {},
	"cmd/holdfast": {may: []string{"pkg/", "internal/", "services/", "web", "examples/"}, libs: []string{"github.com/alecthomas/kong", "github.com/jotaen/kong-completion", "charm.land/bubbletea/v2", "charm.land/lipgloss/v2", "github.com/charmbracelet/x/ansi", pgx, natsClient, yaml, otel}},
}

func init() {
	for _, s := range []string{"trigger", "runner", "tools", "approvals", "console"} {
		rules["services/"+s+"/postgres"] = adapter(s, []string{"internal/pg", "internal/blob"}, pgx)
		rules["services/"+s+"/inbox"] = adapter(s, []string{"internal/bus"})
		rules["services/"+s+"/httpapi"] = adapter(s, []string{"internal/door", "internal/authn", "internal/follow", "internal/oidc"}, huma)
	}
	for _, s := range []string{"console", "approvals", "tools", "trigger"} { // who has pages
		httpapi := rules["services/"+s+"/httpapi"]
		httpapi.may = append(httpapi.may, "web")
		rules["services/"+s+"/httpapi"] = httpapi
	}
}

// domain is a service's root package: rules and types, no driver.
func domain() rule {
	return rule{may: plus(kit, "pkg/", "internal/follow"), libs: []string{otel, uuid}}
}

// adapter is a subfolder of a service: its own service and one dependency.
func adapter(service string, may []string, libs ...string) rule {
	r := rule{may: plus(kit, "pkg/", "services/"+service), libs: append(slices.Clone(libs), otel, uuid)}
	r.may = append(r.may, may...)
	return r
}

// plus returns a new list, so that no rule appends to another's.
func plus(list []string, more ...string) []string { return append(slices.Clone(list), more...) }

// testMay is what test files may import besides what their folder may: real
// servers, and the service's own adapters.
func testMay(dir string) []string {
	if within(dir, "pkg") { // outsiders run these tests as well
		return []string{"pkg/"}
	}
	may := []string{"internal/", "pkg/"}
	if service, ok := serviceOf(dir); ok {
		may = append(may, "services/"+service+"/")
	}
	return may
}

// testLibs are libraries for test files anywhere.
var testLibs = []string{
	"github.com/google/go-cmp", "pgregory.net/rapid", "go.uber.org/goleak", "github.com/rogpeppe/go-internal",
	pgx, natsClient, "github.com/nats-io/nkeys", huma, otel, "github.com/anthropics/anthropic-sdk-go/v2",
	"github.com/compose-spec/compose-go/v2", "k8s.io/api", "k8s.io/apimachinery", "sigs.k8s.io/kustomize", "sigs.k8s.io/yaml", yaml,
}

// ruleOf returns the rule of the longest folder that contains dir.
func ruleOf(dir string) (folder string, r rule, ok bool) {
	folders := slices.SortedFunc(maps.Keys(rules), func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	for _, f := range folders {
		if within(dir, f) {
			return f, rules[f], true
		}
	}
	return "", rule{}, false
}

// allowed reports whether a file of dir may import the folder dep of this
// module.
func allowed(dir, folder, dep string, r rule, inTest bool) bool {
	may := r.may
	if inTest {
		may = append(slices.Clone(may), testMay(dir)...)
	}
	// The parts of one folder that has one rule know each other.
	if within(dep, folder) && !ownRule(dep, folder) {
		return true
	}
	return slices.ContainsFunc(may, func(m string) bool {
		if below, ok := strings.CutSuffix(m, "/"); ok {
			return within(dep, below)
		}
		return dep == m
	})
}

// ownRule reports whether dep, which lies in folder, has a rule of its own.
func ownRule(dep, folder string) bool {
	f, _, _ := ruleOf(dep)
	return f != folder
}

// allowedLib reports whether a library may be imported.
func allowedLib(imp string, r rule, inTest bool) bool {
	libs := r.libs
	if inTest {
		libs = append(slices.Clone(libs), testLibs...)
	}
	return slices.ContainsFunc(libs, func(l string) bool { return within(imp, l) })
}

// serviceOf returns the service that dir belongs to.
func serviceOf(dir string) (name string, ok bool) {
	rest, ok := strings.CutPrefix(dir, "services/")
	name, _, _ = strings.Cut(rest, "/")
	return name, ok
}

// isTestSupport reports whether a folder exists for tests only.
func isTestSupport(dir string) bool {
	return strings.HasSuffix(dir, "test") || within(dir, "test")
}

// within reports whether path is folder or lies below it.
func within(path, folder string) bool {
	return path == folder || strings.HasPrefix(path, folder+"/")
}
