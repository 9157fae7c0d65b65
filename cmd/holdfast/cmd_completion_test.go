package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// What a shell is told when it asks, as a process of its own: the question is in its
// environment.
func TestCompletion(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]struct{ with, without string }{
		"holdfast runs ":                 {"watch cancel fork", "approve"},
		"holdfast runs wa":               {"watch", "cancel"},
		"holdfast approvals approve --f": {"--field", "--json"},
		"holdfast completion ":           {"bash zsh fish", "runs"},
		"holdfast nothing-like-it x":     {"", "runs"},
	} {
		text, code := output(t, []string{"COMP_LINE=" + line}, "runs", "list")
		words := strings.Fields(text)
		if code != exitOK || slices.Contains(words, want.without) {
			t.Errorf("%q: exit %d, %q", line, code, words)
		}
		for _, w := range strings.Fields(want.with) {
			if !slices.Contains(words, w) {
				t.Errorf("%q: %q, want %q among them", line, words, w)
			}
		}
	}
	for shell, want := range map[string]string{"bash": "complete -o default", "zsh": "bashcompinit", "fish": "function __complete_holdfast"} {
		text, code := output(t, nil, "completion", shell)
		if code != exitOK || !strings.Contains(text, want) {
			t.Errorf("%s: exit %d, %s", shell, code, text)
		}
		if path, err := exec.LookPath(shell); err == nil { // what is printed is something that it can read
			c := exec.CommandContext(t.Context(), path, "-n")
			c.Stdin = strings.NewReader(text)
			if out, err := c.CombinedOutput(); err != nil {
				t.Errorf("%s does not understand it: %v\n%s", shell, err, out)
			}
		}
	}
	if text, code := output(t, nil, "completion", "tcsh"); code != exitUsage || !strings.Contains(text, "bash") {
		t.Errorf("a shell that is not known: exit %d, %s", code, text)
	}
}
