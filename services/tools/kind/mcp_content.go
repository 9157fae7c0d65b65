package kind

import (
	"encoding/json"
	"fmt"
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
	Note     string `json:"note,omitempty"`
}

// mcpResult is what the model reads when there is more than text.
type mcpResult struct {
	Text        string       `json:"text,omitempty"`
	Note        string       `json:"note,omitempty"`
	Attachments []attachment `json:"attachments,omitempty"`
}

const maxAttachments = 50

// answerOf reads the result of a call. Structured content goes to the model as
// it came, digits and all; else the texts, joined by line ends. Anything else is
// named with its type and size. Nothing in it is ever taken for a call or a
// decision.
func answerOf(raw json.RawMessage, scrub scrubber) tools.Outcome {
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
			out.Attachments = append(out.Attachments, b.attachment(scrub))
		}
	}
	text := scrub.text(clean(strings.Join(texts, "\n"), 4*maxResultBytes))
	if r.IsError {
		if text == "" {
			text = "the tool reported an error without a text"
		}
		return mcpProblem(tools.Refused, codeToolError, "%s", text)
	}
	done := tools.Outcome{Verdict: tools.Happened}
	if s := scrub.bytes(r.StructuredContent); len(s) > 0 && string(s) != "null" && len(s) <= maxResultBytes && storable(s) {
		done.Result = json.RawMessage(s)
		return done
	}
	out.Text = clip(text, maxResultBytes)
	if len(text) > len(out.Text) {
		out.Note = fmt.Sprintf("cut off after %d bytes: the answer is longer", len(out.Text))
	}
	done.Result = bounding(&out)
	return done
}

// bounding writes the result; text alone becomes a JSON string.
func bounding(out *mcpResult) json.RawMessage {
	for {
		var v any = out
		if out.Note == "" && len(out.Attachments) == 0 {
			v = out.Text
		}
		b, err := events.Marshal(v)
		if err != nil {
			return json.RawMessage(`{"note":"the answer could not be shown"}`)
		}
		if len(b) <= 2*maxResultBytes {
			return b
		}
		out.Text = clip(out.Text, len(out.Text)/2) // characters that JSON writes as six bytes
		out.Note = fmt.Sprintf("cut off after %d bytes: it is mostly control characters", len(out.Text))
	}
}

func (b block) attachment(scrub scrubber) attachment {
	short := func(s string) string { return scrub.text(clean(s, 500)) }
	a := attachment{Type: short(b.Type), MIMEType: short(b.MIMEType), URI: short(b.URI), Name: short(b.Name), Bytes: b.Size}
	switch {
	case a.Type == "":
		a.Type = "unknown"
	case b.Resource != nil:
		a.URI, a.MIMEType, a.Bytes = short(b.Resource.URI), short(b.Resource.MIMEType), decodedBytes(b.Resource.Blob)
		if b.Resource.Text != nil {
			a.Bytes = int64(len(*b.Resource.Text))
		}
	case b.Data != "":
		a.Bytes = decodedBytes(b.Data)
	}
	a.Note = "not shown"
	return a
}

// decodedBytes is the size of what base64 text stands for.
func decodedBytes(s string) int64 {
	return int64(len(strings.TrimRight(s, "="))) * 3 / 4
}
