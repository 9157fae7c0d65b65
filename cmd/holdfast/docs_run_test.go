package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/mdtest"
	"github.com/holdfast-run/holdfast/internal/pgtest"
	"github.com/holdfast-run/holdfast/internal/scriptmodel"
)

const docsRoot = "../.."

// docPages are the pages whose blocks are run: README.md and all below docs.
func docPages(t *testing.T) (all []mdtest.Page) {
	t.Helper()
	pages, err := mdtest.Pages(docsRoot)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pages {
		if p.Path == "README.md" || strings.HasPrefix(p.Path, "docs/") {
			all = append(all, p)
		}
	}
	if len(all) < 20 {
		t.Fatalf("only %d pages: the test has lost its way", len(all))
	}
	return all
}

// shell reports whether a block is run in a page's shell.
func shell(b mdtest.Block) bool {
	return b.NotRun == "" && (b.Lang == "sh" || b.Lang == "console" || b.Lang == mdtest.Hidden)
}

// TestDocs_Run runs the commands of every page as its reader would, page by page in a
// namespace of its own, against one "holdfast dev" whose model is scripted. What a page
// shows as printed must be printed.
func TestDocs_Run(t *testing.T) {
	t.Parallel()
	requirePostgres(t)
	model := httptest.NewServer(scriptmodel.New(scriptmodel.Config{Script: obliging, Alone: true}))
	t.Cleanup(model.Close)
	world := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"ok":true,"path":%q,"key":%q}`, r.URL.Path, r.Header.Get("Idempotency-Key"))
	}))
	t.Cleanup(world.Close)
	addr := free(t)
	env := []string{
		"ANTHROPIC_BASE_URL=" + model.URL, "ANTHROPIC_API_KEY=key", "OPENAI_API_KEY=key", "HOLDFAST_EGRESS_ALLOW=127.0.0.0/8",
		"HOLDFAST_TOOL_WORLD_URL=" + world.URL, "HOLDFAST_TOOL_SHOP_URL=" + world.URL, "HOLDFAST_TOOL_PRICING_URL=" + world.URL, "WORLD=" + world.URL,
	}
	if python, err := exec.CommandContext(t.Context(), "python3", "-c", "import os, sys; print(os.path.realpath(sys.executable))").Output(); err == nil {
		path := strings.TrimSpace(string(python))
		env = append(env, "PYTHON="+path, "HOLDFAST_TOOLS_MCP_COMMANDS="+path)
	}
	start(t, env, devReady, "dev", "--data-dir", dataDir(t), "--listen", addr, "--database-url", pgtest.New(t).URL.Reveal())
	root, err := filepath.Abs(docsRoot)
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range docPages(t) {
		var blocks []mdtest.Block
		for _, b := range page.Blocks {
			if shell(b) {
				blocks = append(blocks, b)
			}
		}
		if len(blocks) == 0 {
			continue
		}
		t.Run(page.Path, func(t *testing.T) {
			t.Parallel()
			at, dir := addr, t.TempDir()
			mine := append([]string{
				"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "BASE=" + filepath.Join(root, "cmd/holdfast/testdata/docs/base.yaml"), "LC_ALL=C.UTF-8", "PAGE=" + dir,
			}, env...)
			namespace := namespaceOf(page.Path)
			if starts(blocks) { // a server of its own, which the page starts and kills
				at, namespace = free(t), "default"
				mine = append(mine, "HOLDFAST_LISTEN="+at, "HOLDFAST_DATABASE_URL="+pgtest.New(t).URL.Reveal())
			}
			mine = append(mine, "HOLDFAST_SERVER=http://"+at, "HOLDFAST_NAMESPACE="+namespace)
			vars := map[string]string{}
			mine = append(mine, "TOMORROW="+time.Now().UTC().AddDate(0, 0, 1).Format(time.DateOnly))
			for _, v := range mine {
				name, value, _ := strings.Cut(v, "=")
				vars[name] = value
			}
			replace := []string{"127.0.0.1:8787", at}
			back := []string{at, "127.0.0.1:8787"}
			if namespace != "default" {
				back = append(back, namespace, "default")
			}
			for _, r := range page.Replaces {
				is := os.Expand(r.New, func(name string) string { return vars[name] })
				replace, back = append(replace, r.Old, is), append(back, is, r.Old)
			}
			plain := strings.NewReplacer(replace...)
			if err := os.Symlink(filepath.Join(root, "examples"), filepath.Join(dir, "examples")); err != nil {
				t.Fatal(err)
			}
			s := newPageShell(t, dir, mine, plain, strings.NewReplacer(back...))
			for _, b := range page.Blocks {
				if name := fileOf(b); name != "" {
					if err := os.WriteFile(filepath.Join(dir, name), []byte(plain.Replace(b.Text)), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				if shell(b) {
					s.block(page.Path, b)
				}
			}
			if len(s.filled) > 0 {
				s.fill(filepath.Join(docsRoot, page.Path))
			}
			t.Logf("%s: %d blocks, %d commands, %.1f s", page.Path, len(blocks), s.ran, s.took.Seconds())
		})
	}
}

// starts reports whether a page starts a server.
func starts(blocks []mdtest.Block) bool {
	for _, b := range blocks {
		if regexp.MustCompile(`(?m)^(\$ )?(\w+=\S* )*holdfast dev\b`).MatchString(b.Text) {
			return true
		}
	}
	return false
}

var fileName = regexp.MustCompile(`^(?:#|//) ([\w.-]+\.\w+)$`)

// fileOf is the file that a block is: its first line says so in a comment.
func fileOf(b mdtest.Block) string {
	first, _, _ := strings.Cut(b.Text, "\n")
	if m := fileName.FindStringSubmatch(first); m != nil {
		return m[1]
	}
	return ""
}

func namespaceOf(path string) string {
	name := strings.TrimSuffix(strings.TrimPrefix(path, "docs/"), ".md")
	return "docs-" + strings.ToLower(strings.NewReplacer("/", "-", ".", "-", "_", "-").Replace(name))
}

// wording is what the model writes where it may write anything.
var wording = map[string]string{
	"topic": "domain-use", "text": "Anybody may use this domain in examples.", "reason": "late", "question": "Which shop is meant?",
}

var address = regexp.MustCompile(`https?://[\w.:/-]*\w`)

// obliging is a model that calls each of its tools once, in their order, with members
// of its input where their names agree, and then says that it is done.
func obliging(r scriptmodel.Request) (scriptmodel.Answer, error) {
	done := r.Results()
	if len(done) >= len(r.Tools) || len(done) > 0 && done[len(done)-1].IsError {
		text := "done"
		if len(done) > 0 {
			text += " after " + done[len(done)-1].Tool
		}
		return scriptmodel.Answer{Parts: []scriptmodel.Part{scriptmodel.Text(text)}}, nil
	}
	tool := r.Tools[len(done)]
	var args, given map[string]json.RawMessage
	if err := json.Unmarshal(sample(tool.InputSchema, "", 0), &args); err != nil || args == nil {
		args = map[string]json.RawMessage{}
	}
	if text := r.FirstText(); strings.Contains(text, "{") {
		_ = json.Unmarshal([]byte(text[strings.Index(text, "{"):]), &given) // words are no input
	}
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	_ = json.Unmarshal(tool.InputSchema, &schema) // then it names none
	for name := range schema.Properties {
		if words, ok := wording[name]; ok {
			args[name], _ = json.Marshal(words) // a text always has a form
		}
		if value, ok := given[name]; ok {
			args[name] = value
		} else if at := address.FindString(r.FirstText()); name == "url" && at != "" {
			args[name] = json.RawMessage(`"` + at + `"`)
		}
	}
	return scriptmodel.Answer{Parts: []scriptmodel.Part{scriptmodel.Call(tool.Name, args)}}, nil
}
