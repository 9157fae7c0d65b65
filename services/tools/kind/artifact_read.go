package kind

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/tools"
)

// ArtifactRead shows a model an artifact of its own run. It is a read.
type ArtifactRead struct{ artifacts tools.RunArtifacts }

var _ tools.Kind = (*ArtifactRead)(nil)

// Bounds of what one call shows.
const (
	maxReadText  = 64 << 10
	maxReadNames = 50
)

// Name is "artifact_read".
func (*ArtifactRead) Name() string { return spec.BuiltinArtifactRead }

// Runs reports whether the definition names the builtin.
func (*ArtifactRead) Runs(t *spec.Tool) bool { return t.Builtin == spec.BuiltinArtifactRead }

// artifactPart is what the model reads: a part of an artifact, or with URI where
// it is.
type artifactPart struct {
	artifactLine
	Offset int    `json:"offset,omitempty"` // where Text begins
	Text   string `json:"text,omitempty"`
	Next   int    `json:"next,omitempty"` // where to go on; absent at the end
	Note   string `json:"note,omitempty"`
}

// artifactLine is one artifact in a list.
type artifactLine struct {
	Artifact  string `json:"artifact"`
	Name      string `json:"name,omitempty"`
	Type      string `json:"type,omitempty"`
	Bytes     int64  `json:"bytes"`
	Truncated bool   `json:"truncated,omitempty"`
	URI       string `json:"uri,omitempty"`
	Kind      string `json:"kind,omitempty"`
	Title     string `json:"title,omitempty"`
	Tool      string `json:"tool,omitempty"` // whose call left it
}

func lineOf(a tools.Artifact) artifactLine {
	return artifactLine{Artifact: a.ID, Name: a.Name, Type: a.ContentType, Bytes: a.Bytes, Truncated: a.Truncated, URI: a.URI, Kind: a.Kind, Title: a.Title, Tool: a.Tool}
}

// Act reads what the arguments name.
func (k *ArtifactRead) Act(ctx context.Context, r tools.Request) tools.Outcome {
	var args struct {
		ID, Name string
		Offset   int
		Length   int
	}
	if bad := spec.BuiltinNamed(spec.BuiltinArtifactRead).Input().Validate(r.Args); len(bad) > 0 {
		return invalid(errors.New(bad[0].String()))
	}
	if err := json.Unmarshal(r.Args, &args); err != nil {
		return invalid(errors.New("offset and length must be whole numbers of bytes"))
	}
	if args.ID != "" && args.Name != "" {
		return invalid(errors.New("give id or name, not both"))
	}
	if args.ID == "" && args.Name == "" {
		return k.list(ctx, r)
	}
	a, err := k.artifacts.RunArtifact(ctx, r.Namespace, r.RunID, args.ID, args.Name)
	switch {
	case errors.Is(err, tools.ErrNotFound):
		return refusedRead("no_artifact", "this run has no such artifact; without arguments its artifacts are listed")
	case errors.Is(err, tools.ErrForgotten):
		return refusedRead("forgotten", "the bytes of this artifact are no longer kept")
	case err != nil:
		return unread()
	}
	limit := outputLimit(r.Tool, maxReadText)
	if args.Length > 0 {
		limit = min(limit, args.Length)
	}
	return shown(part(a, args.Offset, limit))
}

func (k *ArtifactRead) list(ctx context.Context, r tools.Request) tools.Outcome {
	found, err := k.artifacts.Artifacts(ctx, tools.ArtifactFilter{Namespace: r.Namespace, RunID: r.RunID, Limit: maxReadNames + 1})
	if err != nil {
		return unread()
	}
	var out struct {
		Artifacts []artifactLine `json:"artifacts"` // the newest first
		Note      string         `json:"note,omitempty"`
	}
	out.Artifacts = []artifactLine{}
	if len(found) > maxReadNames {
		found, out.Note = found[:maxReadNames], "there are more, older ones"
	}
	for _, a := range found {
		out.Artifacts = append(out.Artifacts, lineOf(a))
	}
	return shown(out)
}

// part is the text of an artifact from a byte on, at most limit bytes of it. It
// splits no character: what begins inside of one begins behind it.
func part(a tools.Artifact, offset, limit int) artifactPart {
	p := artifactPart{artifactLine: lineOf(a)}
	switch {
	case a.URI != "":
		p.Note = "it is not kept here; uri says where it is"
		return p
	case !isText(a.ContentType, a.Data):
		p.Note = fmt.Sprintf("binary content, %d bytes, not shown", len(a.Data))
		return p
	}
	decoded := a.Data
	if !utf8.Valid(decoded) { // what is UTF-8 is not guessed at
		if b, err := io.ReadAll(utf8Reader(a.Data, a.ContentType, false)); err == nil {
			decoded = b
		}
	}
	text := clean(string(decoded), len(decoded)*len("\uFFFD"))
	if offset >= len(text) {
		p.Note = fmt.Sprintf("the text ends at byte %d", len(text))
		return p
	}
	for offset < len(text) && !utf8.RuneStart(text[offset]) {
		offset++
	}
	p.Offset, p.Text = offset, clip(text[offset:], limit)
	if p.Text == "" && offset < len(text) { // limit is inside the first character
		_, n := utf8.DecodeRuneInString(text[offset:])
		p.Text = text[offset : offset+n]
	}
	if next := offset + len(p.Text); next < len(text) {
		p.Next, p.Note = next, fmt.Sprintf("bytes %d to %d of %d", offset, next, len(text))
	}
	return p
}

func shown(v any) tools.Outcome {
	raw, err := events.Marshal(v)
	if err != nil {
		return refusedRead("unreadable", "the artifact cannot be shown")
	}
	return tools.Outcome{Verdict: tools.Happened, Result: raw}
}

func refusedRead(code, message string) tools.Outcome {
	return tools.Outcome{Verdict: tools.Refused, Error: &events.Problem{Code: code, Message: message}}
}

// unread is a store that cannot be read now. It is tried again.
func unread() tools.Outcome {
	return tools.Outcome{Verdict: tools.NotSent, Error: &events.Problem{Code: "store", Message: "the artifacts cannot be read now"}}
}
