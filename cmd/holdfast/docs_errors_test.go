package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const errorsDoc = "../../docs/reference/errors.md"

// problemFolders hold the constants of the codes that doors answer.
var problemFolders = []string{
	"internal/door", "services/trigger", "services/tools", "services/approvals/httpapi", "services/console/httpapi",
}

// TestErrorsDoc keeps docs/reference/errors.md in step with the codes in the code: each
// has a line, and none is left behind. Rewrite it with go generate ./cmd/holdfast.
func TestErrorsDoc(t *testing.T) {
	t.Parallel()
	found := map[string][]string{} // code to folders
	for _, folder := range problemFolders {
		codesIn(t, folder, found)
	}
	var b strings.Builder
	b.WriteString(`# Errors

<!-- Generated from the codes by "go generate ./cmd/holdfast". Do not edit. -->

## Of the HTTP API and of tool calls

An error of the API is ` + "`application/problem+json`" + `: ` + "`status`" + `, a stable ` + "`code`" + `, a ` + "`detail`" + ` that says what to try next, and ` + "`errors`" + ` with places where there are several. Programs look at ` + "`code`" + `; codes are added,
never renamed. A tool call that failed has a code, too, which the model and ` + "`holdfast effects show`" + ` read. What a model's provider answers becomes of a run as [models.md](../models.md) says.
The exit codes of the command line are in [cli.md](../cli.md).

| code | means | from |
|---|---|---|
`)
	for _, code := range slices.Sorted(maps.Keys(found)) {
		words, ok := codeWords[code]
		if !ok {
			t.Errorf("the code %s of %s has no words: add a line to codeWords in cmd/holdfast/docs_errors_test.go", code, found[code][0])
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", code, words, strings.Join(found[code], ", "))
	}
	for code := range codeWords {
		if found[code] == nil {
			t.Errorf("codeWords explains %s, which nothing answers", code)
		}
	}
	generated(t, errorsDoc, "./cmd/holdfast", b.String())
}

// codesIn finds string constants that are named Code... or code... below a folder.
func codesIn(t *testing.T, folder string, found map[string][]string) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(docsRoot, folder), func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			return err
		}
		from := strings.Split(folder, "/")[1]
		for _, decl := range f.Decls {
			g, ok := decl.(*ast.GenDecl)
			if !ok || g.Tok != token.CONST {
				continue
			}
			for _, s := range g.Specs {
				v := s.(*ast.ValueSpec)
				for i, name := range v.Names {
					if !strings.HasPrefix(strings.ToLower(name.Name), "code") || i >= len(v.Values) {
						continue
					}
					if lit, ok := v.Values[i].(*ast.BasicLit); ok && lit.Kind == token.STRING {
						code, err := strconv.Unquote(lit.Value)
						if err != nil {
							return err
						}
						if !slices.Contains(found[code], from) {
							found[code] = append(found[code], from)
						}
					}
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// codeWords says what each code means to who gets it.
var codeWords = map[string]string{
	"already_decided":         "somebody decided before: who, when and through which door",
	"answer_too_large":        "the other side's answer is larger than what is read",
	"approval_expired":        "nobody decided in time, or the yes is no longer valid",
	"approval_mismatch":       "the yes was for other arguments, another version or another policy",
	"approval_missing":        "the call needs a yes and has none",
	"approval_withdrawn":      "the request was taken back: the run ended, or asks no more",
	"bad_request":             "the request cannot be understood",
	"bad_signature":           "the request is not proven to be from its sender",
	"body_too_large":          "the body is larger than the door takes",
	"circuit_open":            "the host failed often in a row; nothing was sent",
	"comment_required":        "the policy wants a comment",
	"cross_origin":            "the request comes from another web site",
	"damaged":                 "what is stored cannot be understood; an operator must look",
	"deleted":                 "the run was deleted: when, by whom and why",
	"digest_mismatch":         "what was decided about is not what is asked",
	"elsewhere":               "the artifact is an address; its bytes are not here",
	"events_unavailable":      "the stream of events cannot be read now",
	"expired_key":             "the key was used too long ago to know; it is never free again",
	"fenced":                  "another attempt has the effect now",
	"flow_run":                "the command is for runs of agents, and this is a flow's",
	"forbidden":               "the role may not do this",
	"forgotten":               "the bytes were deleted with their run",
	"idempotency_key_reused":  "the key came with another request",
	"incomplete_body":         "the connection ended before the body did",
	"input_required":          "the server of MCP asks the caller for something, which nobody here can give",
	"internal":                "a mistake of the server; its log has the request's id",
	"invalid_backfill":        "the span of a backfill is wrong or too long",
	"invalid_callback":        "the address of a callback is not allowed",
	"invalid_cursor":          "the cursor is of another list, or damaged: begin with the first page",
	"invalid_deadline":        "the deadline is no time, or out of bounds",
	"invalid_definition":      "a definition is wrong; `errors` has the places",
	"invalid_encoding":        "the body is not what its Content-Encoding says",
	"invalid_idempotency_key": "the Idempotency-Key is too long or has characters that are not allowed",
	"invalid_input":           "a member is wrong, or the input does not fit the schema; `errors` has the places",
	"invalid_json":            "the body is no JSON, or has a member twice",
	"invalid_key":             "the tool's key cannot be made from these arguments",
	"invalid_labels":          "labels are too many, too long or named wrongly",
	"invalid_option":          "an option of the command is wrong",
	"invalid_priority":        "the priority is neither interactive nor batch",
	"invalid_signal":          "the signal's name, key or data is wrong",
	"invalid_text":            "a text has bytes that cannot be stored",
	"key_mismatch":            "the key was used with other arguments",
	"mapping_failed":          "the request lacks what the definition takes from it",
	"may_double":              "people may have read it: say that twice is fine",
	"messages_unread":         "the run keeps as many unread messages as it may",
	"method_not_allowed":      "the path has other methods",
	"no_callback":             "the address takes no result any more, or never did",
	"no_public_url":           "the server does not know its own address: set `--tools-public-url`",
	"no_test_send":            "a provider whose requests cannot be made here",
	"not_a_program_effect":    "the effect is of a run, not of a program",
	"not_allowed":             "the policy names others who decide",
	"not_found":               "there is no such thing here",
	"not_happened":            "it surely did not happen",
	"not_in_doubt":            "the effect is settled: its state is in the answer",
	"not_paused":              "the schedule is not paused",
	"not_replayable":          "nothing is kept that could be taken again",
	"not_resent":              "the message is on its way or was delivered",
	"other_outcome":           "another outcome was recorded first",
	"outcome_unknown":         "it may have happened and nobody knows",
	"output_invalid":          "the answer has another shape than the tool's outputSchema",
	"overlap":                 "the schedule's last run has not ended",
	"paused_by_definition":    "the definition says paused; apply another",
	"program_run":             "the run is a program's own; only the program can do that",
	"rate_limited":            "too many requests: wait as Retry-After says",
	"request_timeout":         "the request came too slowly",
	"result_not_stored":       "it happened, and its result cannot be stored",
	"revoked":                 "the call was taken back before it began",
	"run_cancelling":          "the run is being cancelled",
	"run_ended":               "the run has ended",
	"run_not_failed":          "only what failed or expired is tried again",
	"name_taken":              "a person who signs in has the name of the token, or would have it; choose another",
	"run_stays":               "the run cannot be deleted yet, or not by itself: `detail` says which one holds it",
	"server_missing":          "there is no such MCPServer",
	"stale_checkpoint":        "somebody saved a newer version",
	"stale_signature":         "the request was signed too long ago",
	"too_many_in_flight":      "as many runs of this webhook are open as may be",
	"too_many_runs":           "more runs fit the condition than `max`; nothing was sent",
	"tool_acts":               "the tool acts: say that it may",
	"tool_changed":            "the server's tool has another schema than the definition",
	"tool_denied":             "the server's definition does not allow the tool",
	"tool_error":              "the tool says that it failed",
	"tool_misconfigured":      "the tool's definition does not work here: `detail` says what is missing",
	"unauthenticated":         "there is no valid token",
	"unavailable":             "something that is needed is away: try again, nothing was done",
	"unfit_answer":            "the answer does not fit what was asked for",
	"unknown_delivery":        "there is no such delivery",
	"unknown_schedule":        "there is no such schedule",
	"unknown_target":          "there is no such agent or flow",
	"unknown_tool":            "there is no such tool",
	"unknown_webhook":         "there is no such webhook",
	"unreachable":             "the server cannot be reached; nothing was sent",
	"unsupported_media_type":  "the Content-Type is not taken",
	"unsupported_tool":        "no worker knows this kind of tool",
	"version_required":        "say over which version you save: If-Match",
	"worker_lost":             "the process that was acting is gone",
	"wrong_decision":          "the decision does not go with the kind of request",
	"wrong_namespace":         "the token is for another namespace",
}
