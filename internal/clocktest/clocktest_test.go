package clocktest

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

const envChild = "CLOCKTEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(envChild) == "" {
		os.Exit(m.Run())
	}
	began := time.Now()
	if err := FromEnv(); err != nil {
		os.Stderr.WriteString(err.Error())
		os.Exit(1)
	}
	// The time of day has moved; what passes has not, nor has what was read before.
	now := time.Now()
	time.Sleep(10 * time.Millisecond)
	took := time.Since(now)
	os.Stdout.WriteString(now.Round(0).Sub(began.Round(0)).Round(time.Minute).String() + " ")
	if took < 10*time.Millisecond || took > 10*time.Second || now.Sub(began) > 10*time.Second || time.Until(now.Add(time.Hour)) > time.Hour {
		os.Stdout.WriteString("what passed is wrong: " + took.String() + " " + now.Sub(began).String())
	}
	os.Exit(0)
}

func TestFromEnv(t *testing.T) {
	t.Parallel()
	for offset, want := range map[string]string{"10m": "10m0s ", "-10m": "-10m0s ", "": "0s ", "1h": "1h0m0s ", "soon": "whole seconds", "1500ms": "whole seconds"} {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), envChild+"=1", Env+"="+offset)
		out, err := cmd.CombinedOutput()
		if got := string(out); got != want && !(err != nil && strings.Contains(got, want)) {
			t.Errorf("an offset of %q: %q, %v, want %q", offset, got, err, want)
		}
	}
}
