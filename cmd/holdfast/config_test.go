package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite generated files")

func TestConfig_SaysWhereFrom(t *testing.T) {
	t.Parallel()
	env := []string{
		"HOLDFAST_RUNNER_MODEL_SLOTS=8", "HOLDFAST_DATABASE_URL=postgres://u:hunter2@db/x", "HOLDFAST_NATS_TOKEN=hunter2", "HOLDFAST_TOOLS_SLOTS=7",
	}
	text, code := output(t, env, "config", "--json", "--tools-slots", "4")
	if code != 0 {
		t.Fatalf("exit %d\n%s", code, text)
	}
	var all []setting
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, s := range all {
		got[s.Flag] = s.Value + " from " + s.Source
	}
	for flag, want := range map[string]string{
		"runner-model-slots":  "8 from env HOLDFAST_RUNNER_MODEL_SLOTS",
		"tools-slots":         "4 from flag",
		"shutdown-grace":      "20s from default",
		"database-url":        "postgres://redacted@db/x from env HOLDFAST_DATABASE_URL",
		"nats-token":          "[redacted] from env HOLDFAST_NATS_TOKEN",
		"tools-pools":         "default,callbacks from default",
		"runner-max-attempts": "5 from default",
	} {
		if got[flag] != want {
			t.Errorf("%s: %q, want %q", flag, got[flag], want)
		}
	}
	if strings.Contains(text, "hunter2") {
		t.Errorf("a secret shows:\n%s", text)
	}
}

// flagsOf returns the flags of a command by name.
func flagsOf(t *testing.T, name string) map[string]*kong.Flag {
	t.Helper()
	parser, err := newParser(&CLI{}, kong.Exit(func(int) {}))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range parser.Model.Children {
		if n.Name == name {
			flags := map[string]*kong.Flag{}
			for _, f := range n.Flags {
				flags[f.Name] = f
			}
			return flags
		}
	}
	t.Fatalf("there is no command %s", name)
	return nil
}

func TestFlags(t *testing.T) {
	t.Parallel()
	serve, config := flagsOf(t, "serve"), flagsOf(t, "config")
	for name, f := range serve {
		if f.Help == "" {
			t.Errorf("--%s explains nothing", name)
		}
		if want := "HOLDFAST_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_")); len(f.Envs) != 1 || f.Envs[0] != want {
			t.Errorf("--%s is read from %v, want %s", name, f.Envs, want)
		}
		if config[name] == nil {
			t.Errorf("--%s of serve is not a setting that \"holdfast config\" shows", name)
		}
	}
}

const configDoc = "../../docs/config.md"

// TestConfigDoc keeps docs/config.md in step with the flags. Rewrite it with
// go generate ./cmd/holdfast.
func TestConfigDoc(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString(`# Settings

<!-- Generated from the flags by "go generate ./cmd/holdfast". Do not edit. -->

Every setting is a flag of "holdfast serve"; its environment variable is the flag's name in upper case after ` + "`HOLDFAST_`" + `.
A flag beats the environment, the environment beats the default. ` + "`holdfast config`" + ` shows the effective values and where each
came from. ` + "`holdfast dev`" + ` takes the same ones, and ` + "`--data-dir`" + ` and ` + "`-f`" + `.
`)
	parser, err := newParser(&CLI{}, kong.Exit(func(int) {}))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range parser.Model.Children {
		if n.Name != "serve" {
			continue
		}
		var titles []string // in the order of the help
		rows := map[string]string{}
		for _, f := range n.Flags {
			if f.Group == nil {
				continue // --help
			}
			title := strings.TrimSuffix(f.Group.Title, ":")
			if rows[title] == "" {
				titles = append(titles, title)
			}
			def := ""
			if f.Default != "" {
				def = "`" + f.Default + "`"
			}
			help := strings.ReplaceAll(strings.ReplaceAll(f.Help, " ("+f.Default+")", ""), "|", "\\|")
			rows[title] += fmt.Sprintf("| `--%s` | %s | %s |\n", f.Name, def, help)
		}
		for _, title := range titles {
			fmt.Fprintf(&b, "\n## %s\n\n| flag | default | what |\n|---|---|---|\n%s", title, rows[title])
		}
	}
	want := b.String()
	if *update {
		if err := os.MkdirAll("../../docs", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(configDoc, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(configDoc)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("docs/config.md is stale, run go generate ./cmd/holdfast (-want +got):\n%s", diff)
	}
}
