package authn

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRole_Allows(t *testing.T) {
	t.Parallel()
	want := map[Role][]Role{
		Viewer:   {Viewer},
		Operator: {Viewer, Operator},
		Approver: {Viewer, Approver},
		Admin:    {Viewer, Operator, Approver, Admin},
		0:        nil,
		99:       nil,
	}
	got := map[Role][]Role{}
	for r := range want {
		got[r] = nil
		for need := Role(-1); need < 10; need++ {
			if r.Allows(need) {
				got[r] = append(got[r], need)
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("roles allow (-want +got):\n%s", diff)
	}
}

func TestParseRole_KnowsEveryName(t *testing.T) {
	t.Parallel()
	for _, r := range Roles() {
		got, err := ParseRole(r.String())
		if err != nil || got != r {
			t.Errorf("ParseRole(%q) = %v, %v", r.String(), got, err)
		}
	}
	for _, bad := range []string{"", "Viewer", "root", "role(0)"} {
		if got, err := ParseRole(bad); err == nil {
			t.Errorf("ParseRole(%q) = %v, want an error", bad, got)
		}
	}
}

func TestNewToken_IsRandomAndPlausible(t *testing.T) {
	t.Parallel()
	a, b := NewToken(), NewToken()
	if a == b {
		t.Fatal("two tokens are equal")
	}
	if len(a) != len(TokenPrefix)+43 || !plausible(a) {
		t.Errorf("token has %d characters", len(a))
	}
	if HashToken(a) == HashToken(b) {
		t.Error("hashes are equal")
	}
}

func TestValidNamespace(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]bool{
		"default": true, "a": true, "team-7": true,
		"": false, "-a": false, "a-": false, "A": false, "a_b": false, "a.b": false, "a b": false, "a\x00": false,
	} {
		if got := ValidNamespace(s); got != want {
			t.Errorf("ValidNamespace(%q) = %v, want %v", s, got, want)
		}
	}
}
