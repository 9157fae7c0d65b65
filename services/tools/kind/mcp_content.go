package kind

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path"
	"strings"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/tools"
)

// block is one content block of an MCP result.
type block struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Data     string `json:"data"` // base64
	MIMEType string `json:"mimeType"`
	URI      string `json:"uri"`
	Name     string `json:"name"`
	Size     int64  `json:"size"`
	Resource *struct {
		URI      string  `json:"uri"`
		MIMEType string  `json:"mimeType"`
		Text     *string `json:"text"`
		Blob     string  `json:"blob"`
	} `json:"resource"`
}

// attachment stands for a block that is not text.
type attachment struct {
	Type     string `json:"type"`
	MIMEType string `json:"mime_type,omitempty"`
	URI      string `json:"uri,omitempty"`
	Name     string `json:"name,omitempty"`
	Bytes    int64  `json:"bytes,omitempty"`
	Artifact string `json:"artifact,omitempty"` // its id
	Note     string `json:"note,omitempty"`
}

// mcpResult is what the model reads when there is more than text.
type mcpResult struct {
	Text        string       `json:"text,omitempty"`
	Note        string       `json:"note,omitempty"`
	Attachments []attachment `json:"attachments,omitempty"`
	// Artifacts holds what is not shown whole.
	Artifacts []artifactNote `json:"artifacts,omitempty"`
}

const maxAttachments = 50

// answerOf reads the result of a call. Structured content goes to the model as
// it came, digits and all; else the texts, joined by line ends. Anything else is
// named with its type and size, and kept as an artifact. Nothing in it is ever taken for a call or a
// decision.
func answerOf(raw json.RawMessage, scrub scrubber, limit int, keep *keeper) tools.Outcome {
	var r struct {
		Content           []json.RawMessage `json:"content"`
		StructuredContent json.RawMessage   `json:"structuredContent"`
		IsError           bool              `json:"isError"`
		ResultType        string            `json:"resultType"`
		InputRequests     json.RawMessage   `json:"inputRequests"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return mcpProblem(tools.Ambiguous, "no_answer", "the server's answer is not a result; it may have happened")
	}
	if r.ResultType == "input_required" || len(r.InputRequests) > 0 && string(r.InputRequests) != "null" {
		return mcpProblem(tools.Refused, codeNeedsInput, "the tool wants to ask something in between, which is not supported; nothing was done")
	}
	var texts []string
	var out mcpResult
	for _, c := range r.Content {
		var b block
		switch err := json.Unmarshal(c, &b); {
		case err == nil && b.Type == "text":
			texts = append(texts, b.Text)
		case len(out.Attachments) == maxAttachments:
			out.Note = fmt.Sprintf("more than %d attachments, the rest is left out", maxAttachments)
		default:
			out.Attachments = append(out.Attachments, b.attachment(scrub, keep))
		}
	}
	text := scrub.clean(strings.Join(texts, "\n"), maxArtifactBytes)
	if r.IsError {
		if text == "" {
			text = "the tool reported an error without a text"
		}
		return mcpProblem(tools.Refused, codeToolError, "%s", text)
	}
	done := tools.Outcome{Verdict: tools.Happened}
	s := scrub.bytes(r.StructuredContent)
	structured := len(s) > 0 && string(s) != "null"
	if structured && storable(s) {
		done.Whole = json.RawMessage(s)
	}
	if structured && len(s) <= limit && storable(s) {
		done.Result, done.Artifacts = json.RawMessage(s), keep.list
		return done
	}
	if structured {
		out.Artifacts = keep.bytes(s, "application/json", "", false)
		if text == "" {
			text = clean(string(s), maxArtifactBytes)
		}
	}
	out.Text = clipText(text, limit)
	if len(text) > len(out.Text) {
		out.Note = fmt.Sprintf("cut off after %d bytes: the answer is longer, it has %d", len(out.Text), len(text))
		if !structured {
			out.Artifacts = keep.bytes([]byte(text), "text/plain; charset=utf-8", "", false)
		}
	}
	done.Result, done.Artifacts = bounding(&out, limit), keep.list
	return done
}

// bounding writes the result; text alone becomes a JSON string.
func bounding(out *mcpResult, limit int) json.RawMessage {
	for {
		var v any = out
		if out.Note == "" && len(out.Attachments) == 0 && len(out.Artifacts) == 0 {
			v = out.Text
		}
		b, err := events.Marshal(v)
		if err != nil {
			return json.RawMessage(`{"note":"the answer could not be shown"}`)
		}
		if len(b) <= 2*limit+256<<10 {
			return b
		}
		out.Text = clip(out.Text, len(out.Text)/2) // characters that JSON writes as six bytes
		out.Note = fmt.Sprintf("cut off after %d bytes: it is mostly control characters", len(out.Text))
	}
}

func (b block) attachment(scrub scrubber, keep *keeper) attachment {
	short := func(s string) string { return scrub.clean(s, 500) }
	a := attachment{Type: short(b.Type), MIMEType: short(b.MIMEType), URI: short(b.URI), Name: short(b.Name), Bytes: b.Size, Note: "not shown"}
	encoded := b.Data
	var data []byte
	switch {
	case a.Type == "":
		a.Type = "unknown"
		return a
	case b.Type == "resource_link" && a.URI != "":
		a.Artifact = keep.keep(tools.Artifact{URI: a.URI, Kind: "resource", Title: a.Name, ContentType: a.MIMEType, Bytes: max(0, b.Size)})
		return a
	case b.Resource != nil:
		a.URI, a.MIMEType = short(b.Resource.URI), short(b.Resource.MIMEType)
		encoded = b.Resource.Blob
		if a.URI != "" {
			a.Name = path.Base(a.URI)
		}
		if b.Resource.Text != nil {
			data, encoded = []byte(*b.Resource.Text), ""
		}
	}
	if encoded != "" {
		var err error
		if data, err = base64.StdEncoding.DecodeString(encoded); err != nil {
			a.Bytes, a.Note = decodedBytes(encoded), "not shown: it is not base64"
			return a
		}
	}
	data = scrub.bytes(data)
	a.Bytes = int64(len(data))
	if len(data) == 0 {
		return a
	}
	if a.Artifact = keep.keep(tools.Artifact{Name: a.Name, ContentType: a.MIMEType, Data: data}); a.Artifact == "" && !keep.r.Discard {
		a.Note = "not shown, and not kept: there is too much of it"
	}
	return a
}

// decodedBytes is the size of what base64 text stands for.
func decodedBytes(s string) int64 {
	return int64(len(strings.TrimRight(s, "="))) * 3 / 4
}
