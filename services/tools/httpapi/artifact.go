package httpapi

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/tools"
)

// Codes of answers about artifacts.
const (
	codeElsewhere = "elsewhere"
	codeForgotten = "forgotten"
)

func registerArtifacts(d *door.Door, a api) {
	tags := []string{"artifacts"}
	door.Register(d, huma.Operation{
		Method: http.MethodGet, Path: "/v1/artifacts", Tags: tags, OperationID: "list-artifacts",
		Summary: "List what tool calls left behind, the newest first",
	}, authn.Viewer, a.artifacts)
	door.Register(d, huma.Operation{
		Method: http.MethodGet, Path: "/v1/artifacts/{id}", Tags: tags, OperationID: "get-artifact",
		Summary: "Download the bytes of an artifact",
		Description: "Always as an attachment, under a type from a short list: bytes from outside are never shown as a page of this origin. " +
			"409 elsewhere: the artifact is only the address of a thing that is not kept here. 410: the bytes were deleted with their run.",
		Errors: []int{http.StatusNotFound, http.StatusConflict, http.StatusGone},
		Responses: map[string]*huma.Response{"200": {Description: "the bytes", Content: map[string]*huma.MediaType{
			octets: {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}}}},
	}, authn.Viewer, a.artifact)
}

// Artifact is one artifact as the door lists it.
type Artifact struct {
	ArtifactID  string    `json:"artifact_id"`
	Namespace   string    `json:"namespace"`
	RunID       string    `json:"run_id" doc:"of the call that acted"`
	CallID      string    `json:"call_id"`
	Tool        string    `json:"tool"`
	Name        string    `json:"name,omitempty" doc:"the other side's word, as content_type and title are"`
	ContentType string    `json:"content_type,omitempty"`
	Bytes       int64     `json:"bytes"`
	Digest      string    `json:"digest,omitempty"`
	Truncated   bool      `json:"truncated,omitempty" doc:"there was more than is kept"`
	URI         string    `json:"uri,omitempty" doc:"of a thing elsewhere; it has no bytes here"`
	Kind        string    `json:"kind,omitempty"`
	Title       string    `json:"title,omitempty"`
	CreatedAt   time.Time `json:"created_at"`
}

func showArtifact(a tools.Artifact) Artifact {
	return Artifact{
		ArtifactID: a.ID, Namespace: a.Namespace, RunID: string(a.RunID), CallID: string(a.CallID), Tool: a.Tool, Name: a.Name,
		ContentType: a.ContentType, Bytes: a.Bytes, Digest: string(a.Digest), Truncated: a.Truncated, URI: a.URI, Kind: a.Kind,
		Title: a.Title, CreatedAt: a.CreatedAt,
	}
}

type artifactsInput struct {
	door.PageInput
	Run string `query:"run" doc:"id of a run; also what effects left that the run shares with another"`
}

type artifactsOutput struct{ Body door.Page[Artifact] }

func (a api) artifacts(ctx context.Context, in *artifactsInput) (*artifactsOutput, error) {
	if in.Run != "" && !events.RunID(in.Run).Valid() {
		return nil, door.Error(http.StatusUnprocessableEntity, door.CodeInvalidInput, "the id of the run is not valid").At("query.run", "not a run id")
	}
	who, _ := authn.FromContext(ctx)
	f := tools.ArtifactFilter{Namespace: who.Namespace, RunID: events.RunID(in.Run), Limit: in.Limit + 1}
	var after tools.ArtifactPosition
	if ok, err := door.DecodeCursor(in.Cursor, &after); err != nil {
		return nil, err
	} else if ok {
		f.After = &after
	}
	found, err := a.service.Artifacts(ctx, f)
	if err != nil {
		return nil, err
	}
	return &artifactsOutput{door.PageOf(found, in.Limit, func(x tools.Artifact) any {
		return tools.ArtifactPosition{CreatedAt: x.CreatedAt, ID: x.ID}
	}, showArtifact)}, nil
}

type artifactOutput struct {
	ContentType string `header:"Content-Type"`
	Disposition string `header:"Content-Disposition"`
	Policy      string `header:"Content-Security-Policy"`
	Sniff       string `header:"X-Content-Type-Options"`
	Resource    string `header:"Cross-Origin-Resource-Policy"`
	Digest      string `header:"Holdfast-Digest"`
	Body        []byte
}

func (a api) artifact(ctx context.Context, in *getInput) (*artifactOutput, error) {
	missing := door.NotFound("there is no artifact %.130q here; list them with GET /v1/artifacts", in.ID)
	if !events.ValidToken(in.ID) {
		return nil, missing
	}
	who, _ := authn.FromContext(ctx)
	found, err := a.service.Artifact(ctx, who.Namespace, in.ID)
	switch {
	case errors.Is(err, tools.ErrNotFound):
		return nil, missing
	case errors.Is(err, tools.ErrForgotten):
		return nil, door.Error(http.StatusGone, codeForgotten, "the bytes of this artifact were deleted with their run")
	case err != nil:
		return nil, err
	case found.URI != "":
		return nil, door.Error(http.StatusConflict, codeElsewhere, fmt.Sprintf("this artifact is not kept here; it is said to be at %.300q", found.URI))
	}
	return &artifactOutput{
		ContentType: safeType(found.ContentType), Disposition: attachmentOf(found), Sniff: "nosniff", Resource: "same-origin",
		Policy: "sandbox; default-src 'none'; frame-ancestors 'none'", Digest: string(found.Digest), Body: found.Data,
	}, nil
}

const octets = "application/octet-stream"

// safeTypes are served as they are. What a browser would run, HTML and SVG and
// scripts above all, is not among them.
var safeTypes = map[string]string{
	"application/json": "application/json", "application/pdf": "application/pdf", "application/zip": "application/zip", "application/gzip": "application/gzip",
	"text/plain": "text/plain; charset=utf-8", "text/csv": "text/csv; charset=utf-8", "text/markdown": "text/plain; charset=utf-8",
	"image/png": "image/png", "image/jpeg": "image/jpeg", "image/gif": "image/gif", "image/webp": "image/webp",
	"audio/mpeg": "audio/mpeg", "audio/wav": "audio/wav", "audio/ogg": "audio/ogg", "video/mp4": "video/mp4", "video/webm": "video/webm",
}

// safeType is what bytes are served as that the other side called contentType.
func safeType(contentType string) string {
	media, _, err := mime.ParseMediaType(contentType)
	if safe, ok := safeTypes[media]; ok && err == nil {
		return safe
	}
	return octets
}

// attachmentOf names the file: the other side's name without what a file system
// or a header could take for more than a name.
func attachmentOf(a tools.Artifact) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r == '.' || r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z':
			return r
		}
		return '_'
	}, path.Base(strings.ReplaceAll(a.Name, `\`, "/")))
	name = strings.TrimLeft(name, "._-")
	if name == "" {
		name = a.ID
	}
	name = name[max(0, len(name)-100):]
	return fmt.Sprintf(`attachment; filename="%s"`, name)
}
