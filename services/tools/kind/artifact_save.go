package kind

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/url"
	"strings"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/tools"
)

// ArtifactSave keeps what a model hands it with the run. It sends nothing: the
// artifact is written by the commit that records the outcome.
type ArtifactSave struct{}

var _ tools.Kind = (*ArtifactSave)(nil)

// Name is "artifact_save".
func (*ArtifactSave) Name() string { return spec.BuiltinArtifactSave }

// Runs reports whether the definition names the builtin.
func (*ArtifactSave) Runs(t *spec.Tool) bool { return t.Builtin == spec.BuiltinArtifactSave }

// savedNote is what the model reads of an artifact that it saved.
type savedNote struct {
	Artifact string `json:"artifact"`
	Name     string `json:"name,omitempty"`
	Type     string `json:"type,omitempty"`
	Bytes    int    `json:"bytes,omitempty"`
	URI      string `json:"uri,omitempty"`
}

// Act checks the arguments and says what to keep.
func (*ArtifactSave) Act(_ context.Context, r tools.Request) tools.Outcome {
	a, err := savedArtifact(r.Args)
	if err != nil {
		return invalid(fmt.Errorf("%w; nothing was saved", err))
	}
	keep := &keeper{r: r}
	id := keep.keep(a)
	if id == "" { // a trial
		return tools.Outcome{Verdict: tools.Happened, Result: json.RawMessage(`{"note":"the arguments are good; a trial saves nothing"}`)}
	}
	kept := keep.list[0]
	note, err := events.Marshal(savedNote{Artifact: id, Name: kept.Name, Type: kept.ContentType, Bytes: len(kept.Data), URI: kept.URI})
	if err != nil {
		return tools.Outcome{Verdict: tools.Refused, Error: &events.Problem{Code: "unreadable", Message: "the artifact cannot be named"}}
	}
	return tools.Outcome{Verdict: tools.Happened, Result: note, Artifacts: keep.list}
}

func savedArtifact(raw json.RawMessage) (tools.Artifact, error) {
	var args struct {
		Name, Type, Kind, Title string
		Text, Base64, URI       *string
	}
	if bad := spec.BuiltinNamed(spec.BuiltinArtifactSave).Input().Validate(raw); len(bad) > 0 {
		return tools.Artifact{}, errors.New(bad[0].String())
	}
	if err := json.Unmarshal(raw, &args); err != nil {
		return tools.Artifact{}, err
	}
	given := 0
	for _, x := range []*string{args.Text, args.Base64, args.URI} {
		if x != nil {
			given++
		}
	}
	if given != 1 {
		return tools.Artifact{}, fmt.Errorf("give exactly one of text, base64 and uri; %d are there", given)
	}
	a := tools.Artifact{Name: args.Name, ContentType: args.Type, Kind: args.Kind, Title: args.Title}
	if args.Type != "" {
		if _, _, err := mime.ParseMediaType(args.Type); err != nil {
			return tools.Artifact{}, fmt.Errorf("type %.60q is not a media type like text/markdown", args.Type)
		}
	}
	switch {
	case args.URI != nil:
		a.URI = *args.URI
		return a, checkURI(a.URI)
	case args.Name == "":
		return tools.Artifact{}, errors.New(`name is required, like "report.md"`)
	case args.Text != nil:
		a.Data = []byte(*args.Text)
		if a.ContentType == "" {
			a.ContentType = "text/plain; charset=utf-8"
		}
	default:
		data, err := base64.StdEncoding.DecodeString(*args.Base64)
		if err != nil {
			return tools.Artifact{}, errors.New("base64 is not standard base64 with its padding")
		}
		a.Data = data
		if a.ContentType == "" {
			a.ContentType = "application/octet-stream"
		}
	}
	if len(a.Data) > spec.MaxSavedBytes {
		return tools.Artifact{}, fmt.Errorf("the content has %d bytes; at most %d are saved in one call. Save it in parts", len(a.Data), spec.MaxSavedBytes)
	}
	return a, nil
}

// checkURI takes the address of a thing elsewhere. People follow it, so what a
// browser would run is not one, and a password in it would be shown to all.
func checkURI(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme == "" || u.Host == "" && u.Path == "" && u.Opaque == "":
		return errors.New("uri is not an address like https://drive.example/d/42")
	case u.User != nil:
		return errors.New("uri must not hold a user or password")
	}
	for _, scheme := range []string{"javascript", "vbscript", "data"} {
		if strings.EqualFold(u.Scheme, scheme) {
			return fmt.Errorf("uri must be the address of a thing elsewhere, not %s:", scheme)
		}
	}
	return nil
}
