package spec

import (
	"encoding/json"
	"errors"
	"fmt"
)

// File is one file of an apply.
type File struct {
	Name string
	Text []byte
}

// Parse reads the documents of one YAML file, separated by "---". All problems
// of all documents come back together; see Problems. Documents are returned
// only when there is none.
func Parse(file string, text []byte) ([]Document, error) {
	return ParseAll([]File{{file, text}})
}

// ParseAll reads the files of one apply as Parse does. The same kind and name
// twice in one namespace is a problem.
func ParseAll(files []File) ([]Document, error) {
	var docs []Document
	var problems []*Error
	first := map[string]*Document{}
	for _, f := range files {
		found, bad := parseFile(f)
		problems = append(problems, bad...)
		for _, doc := range found {
			key := doc.Namespace + "/" + doc.Kind + "/" + doc.Name
			if one := first[key]; one != nil {
				at := doc.root.find("metadata.name")
				problems = append(problems, &Error{File: doc.File, Line: at.line, Column: at.column, Field: "metadata.name",
					Message: fmt.Sprintf("%s %q stands here twice; the other is at %s:%d", doc.Kind, doc.Name, one.File, one.root.find("metadata.name").line)})
				continue
			}
			first[key] = doc
			docs = append(docs, *doc)
		}
	}
	if err := join(problems); err != nil {
		return nil, err
	}
	return docs, nil
}

func parseFile(f File) ([]*Document, []*Error) {
	if len(f.Text) > maxFileBytes {
		return nil, []*Error{{File: f.Name, Message: fmt.Sprintf("the file has %d bytes; at most %d are allowed", len(f.Text), maxFileBytes)}}
	}
	chunks := split(string(f.Text))
	if len(chunks) > maxDocuments {
		return nil, []*Error{{File: f.Name, Message: fmt.Sprintf("the file has %d documents; at most %d are allowed", len(chunks), maxDocuments)}}
	}
	var docs []*Document
	var problems []*Error
	for _, c := range chunks {
		d := newDecoder(f.Name)
		root, err := yamlNode(f.Name, c)
		var syntax *Error
		if errors.As(err, &syntax) {
			problems = append(problems, syntax)
			continue
		}
		if root.kind == nullNode {
			continue
		}
		doc := d.document(root)
		problems = append(problems, d.problems...)
		if doc != nil && len(d.problems) == 0 {
			docs = append(docs, doc)
		}
	}
	return docs, problems
}

// Decode reads the stored body of one version.
func Decode(body json.RawMessage) (*Document, error) {
	root, err := jsonNode(body)
	if err != nil {
		return nil, fmt.Errorf("decode definition: %w", err)
	}
	d := newDecoder("")
	d.stored = true
	doc := d.document(root)
	if err := join(d.problems); err != nil {
		return nil, fmt.Errorf("decode definition: %w", err)
	}
	return doc, nil
}

func decodeKind[T any](body json.RawMessage, kind string, pick func(*Document) *T) (*T, error) {
	doc, err := Decode(body)
	if err != nil {
		return nil, err
	}
	if doc.Kind != kind {
		return nil, fmt.Errorf("decode definition: it holds %s %q, want kind %s", doc.Kind, doc.Name, kind)
	}
	return pick(doc), nil
}

// DecodeAgent reads the stored body of an agent. Like its siblings it refuses
// a field that this release does not know: to ignore one could mean to act
// without an approval that a later release would have asked for.
func DecodeAgent(body json.RawMessage) (*Agent, error) {
	return decodeKind(body, KindAgent, func(d *Document) *Agent { return d.Agent })
}

// DecodeFlow reads the stored body of a flow.
func DecodeFlow(body json.RawMessage) (*Flow, error) {
	return decodeKind(body, KindFlow, func(d *Document) *Flow { return d.Flow })
}

// DecodeTool reads the stored body of a tool.
func DecodeTool(body json.RawMessage) (*Tool, error) {
	return decodeKind(body, KindTool, func(d *Document) *Tool { return d.Tool })
}

// DecodeModel reads the stored body of a model.
func DecodeModel(body json.RawMessage) (*Model, error) {
	return decodeKind(body, KindModel, func(d *Document) *Model { return d.Model })
}

// DecodeWebhook reads the stored body of a webhook.
func DecodeWebhook(body json.RawMessage) (*Webhook, error) {
	return decodeKind(body, KindWebhook, func(d *Document) *Webhook { return d.Webhook })
}

// DecodeSchedule reads the stored body of a schedule.
func DecodeSchedule(body json.RawMessage) (*Schedule, error) {
	return decodeKind(body, KindSchedule, func(d *Document) *Schedule { return d.Schedule })
}

// DecodeBudget reads the stored body of a budget.
func DecodeBudget(body json.RawMessage) (*Budget, error) {
	return decodeKind(body, KindBudget, func(d *Document) *Budget { return d.Budget })
}

// DecodeMCPServer reads the stored body of an MCP server.
func DecodeMCPServer(body json.RawMessage) (*MCPServer, error) {
	return decodeKind(body, KindMCPServer, func(d *Document) *MCPServer { return d.MCPServer })
}

// DecodeChannel reads the stored body of a channel.
func DecodeChannel(body json.RawMessage) (*Channel, error) {
	return decodeKind(body, KindChannel, func(d *Document) *Channel { return d.Channel })
}
