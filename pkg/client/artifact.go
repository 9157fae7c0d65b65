package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Artifact is something that a tool call left behind: bytes, or with a URI a
// thing elsewhere. Name, type and title are the other side's word.
type Artifact struct {
	ArtifactID  string        `json:"artifact_id"`
	Namespace   string        `json:"namespace"`
	RunID       events.RunID  `json:"run_id"`
	CallID      events.CallID `json:"call_id"`
	Tool        string        `json:"tool"`
	Name        string        `json:"name,omitempty"`
	ContentType string        `json:"content_type,omitempty"`
	Bytes       int64         `json:"bytes"`
	Digest      events.Digest `json:"digest,omitempty"`
	Truncated   bool          `json:"truncated,omitempty"`
	URI         string        `json:"uri,omitempty"`
	Kind        string        `json:"kind,omitempty"`
	Title       string        `json:"title,omitempty"`
	CreatedAt   time.Time     `json:"created_at,omitzero"`
}

// RunArtifact is an artifact as a run shows it.
type RunArtifact struct {
	ArtifactID  string        `json:"artifact_id"`
	CallID      events.CallID `json:"call_id"`
	Tool        string        `json:"tool"`
	Name        string        `json:"name,omitempty"`
	ContentType string        `json:"content_type,omitempty"`
	Bytes       int64         `json:"bytes"`
	Truncated   bool          `json:"truncated,omitempty"`
	URI         string        `json:"uri,omitempty"`
	Kind        string        `json:"kind,omitempty"`
	Title       string        `json:"title,omitempty"`
	CreatedAt   time.Time     `json:"created_at,omitzero"`
}

// Artifacts lists artifacts, the newest first; with a run only its own and those
// of effects that it shares.
func (c *Client) Artifacts(ctx context.Context, run events.RunID, p PageRequest) (Page[Artifact], error) {
	q := p.values()
	set(q, "run", string(run))
	return get[Page[Artifact]](ctx, c, "/v1/artifacts", q)
}

// maxArtifact is more than a server keeps of one.
const maxArtifact = 64 << 20

// ArtifactBytes reads the bytes of an artifact, and fails when they are not
// those that the server recorded.
func (c *Client) ArtifactBytes(ctx context.Context, id string) ([]byte, error) {
	resp, err := c.send(ctx, call{method: http.MethodGet, path: "/v1/artifacts/" + url.PathEscape(id)}, nil, "*/*")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxArtifact))
	if err != nil {
		return nil, fmt.Errorf("read artifact %s: %w: %w", id, ErrUnreachable, err)
	}
	if resp.StatusCode/100 != 2 {
		return nil, problem(resp, body)
	}
	if want, got := resp.Header.Get("Holdfast-Digest"), events.DigestOf(body); want != "" && want != string(got) {
		return nil, fmt.Errorf("artifact %s: the bytes are %s and should be %s", id, got, want)
	}
	return body, nil
}
