package archtest

import (
	"go/ast"
	"testing"
)

// TestStreams_LastAsLongAsTheirToken: who begins a stream bounds it by door.Lasting, in
// the same file, so that it ends with the server and with what let its reader in.
func TestStreams_LastAsLongAsTheirToken(t *testing.T) {
	t.Parallel()
	begun := 0
	for _, s := range sources(t) {
		if s.isTest() || s.dir == "internal/door" {
			continue
		}
		begins, bounded := false, false
		ast.Inspect(s.file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				begins = begins || selects(call.Fun, "door", "NewStream")
				bounded = bounded || selects(call.Fun, "door", "Lasting")
			}
			return true
		})
		if begins {
			begun++
		}
		if begins && !bounded {
			t.Errorf("%s begins a stream without door.Lasting", s.path)
		}
	}
	if begun < 3 {
		t.Errorf("streams begin in %d files", begun)
	}
}
