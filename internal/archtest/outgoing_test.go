package archtest

import (
	"go/ast"
	"slices"
	"testing"
)

// mayConnect lists what ships and makes connections without internal/egress,
// with the reason. Everything else sends through it.
var mayConnect = map[string]string{
	"internal/egress":       "it is the guard",
	"internal/chaos":        "a program that starts the command, asks it and cuts its lines",
	"internal/demo":         "a program that starts the command and asks it",
	"internal/lab":          "starts the command and asks whether it is ready",
	"internal/bench":        "a program that starts the command and measures it",
	"pkg/client":            "a library for programs that ask our doors",
	"examples":              "programs that ask our doors",
	"scripts":               "tools of make and CI",
	"internal/natsdev":      "asks the server that it started",
	"internal/pgdev":        "asks the server that it started",
	"cmd/holdfast/edge.go":  "sends on to the services that the operator names",
	"cmd/holdfast/ready.go": "asks the health port of its own process",
}

// what makes a connection, or sends over one that nobody guards.
var (
	connects = map[string][]string{
		"http": {"DefaultClient", "DefaultTransport", "Get", "Head", "Post", "PostForm"},
		"net":  {"Dial", "DialTimeout", "DialTCP", "DialUDP", "DialIP"},
		"tls":  {"Dial", "DialWithDialer"},
		"smtp": {"Dial", "SendMail"},
	}
	connecting = map[string][]string{"http": {"Client", "Transport"}, "net": {"Dialer"}, "tls": {"Dialer"}}
)

// Every outgoing request of a service goes through internal/egress: nothing else
// that ships makes a client, a transport or a connection.
func TestOnlyEgressConnects(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, s := range sources(t) {
		if s.isTest() {
			continue
		}
		for _, what := range connectionsOf(s.file) {
			allowed := ""
			for place := range mayConnect {
				if s.path == place || within(s.dir, place) {
					allowed = place
				}
			}
			if seen[allowed] = true; allowed == "" {
				t.Errorf("%s uses %s: outgoing requests go through internal/egress", s.path, what)
			}
		}
	}
	for _, place := range []string{"internal/egress", "cmd/holdfast/edge.go", "pkg/client"} {
		if !seen[place] {
			t.Errorf("nothing was found in %s: the check sees nothing", place)
		}
	}
}

func connectionsOf(f *ast.File) (out []string) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if pkg, ok := n.X.(*ast.Ident); ok && slices.Contains(connects[pkg.Name], n.Sel.Name) {
				out = append(out, pkg.Name+"."+n.Sel.Name)
			}
		case *ast.CompositeLit:
			out = append(out, made(n.Type)...)
		case *ast.CallExpr:
			if fn, ok := n.Fun.(*ast.Ident); ok && fn.Name == "new" && len(n.Args) == 1 {
				out = append(out, made(n.Args[0])...)
			}
		case *ast.ValueSpec:
			out = append(out, made(n.Type)...)
		}
		return true
	})
	return out
}

// made names a type whose value sends or connects.
func made(t ast.Expr) []string {
	sel, ok := t.(*ast.SelectorExpr)
	if !ok {
		return nil
	}
	if pkg, ok := sel.X.(*ast.Ident); ok && slices.Contains(connecting[pkg.Name], sel.Sel.Name) {
		return []string{pkg.Name + "." + sel.Sel.Name}
	}
	return nil
}
