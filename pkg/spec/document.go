package spec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// APIVersion is what every document names.
const APIVersion = "holdfast/v1"

// DefaultNamespace is where a document goes that names no other.
const DefaultNamespace = "default"

// Kinds of document, as the catalog and references write them.
const (
	KindAgent    = "agent"
	KindFlow     = "flow"
	KindTool     = "tool"
	KindModel    = "model"
	KindWebhook  = "webhook"
	KindSchedule = "schedule"
	KindBudget   = "budget"
	// KindMCPServer is a server of tools.
	KindMCPServer = "mcpserver"
	// KindChannel is where people are told something.
	KindChannel = "channel"
)

// Kinds lists every kind.
var Kinds = []string{KindAgent, KindFlow, KindTool, KindModel, KindWebhook, KindSchedule, KindBudget, KindMCPServer, KindChannel}

// kindNames maps the kind of a document to the kind of the catalog.
var kindNames = map[string]string{
	"Agent": KindAgent, "Flow": KindFlow, "Tool": KindTool, "Model": KindModel,
	"Webhook": KindWebhook, "Schedule": KindSchedule, "Budget": KindBudget, "MCPServer": KindMCPServer,
	"Channel": KindChannel,
}

// Metadata names a definition. Namespace is empty on what was decoded from a
// stored body, which does not hold it.
type Metadata struct {
	Name      string            `json:"name"`
	Namespace string            `json:"namespace,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
}

// Document is one definition that was read and found valid.
type Document struct {
	File string
	Line int // where it starts in File

	Kind      string // KindAgent, ...
	Namespace string // as written; "" when the document names none
	Name      string
	Labels    map[string]string
	// Body is canonical JSON of apiVersion, kind, metadata without namespace,
	// and spec with its defaults. Digest is DigestOf(Body).
	Body   json.RawMessage
	Digest events.Digest

	root       *node
	definition definition // the one of Kind

	// Exactly the one of Kind is set.
	Agent     *Agent
	Flow      *Flow
	Tool      *Tool
	Model     *Model
	Webhook   *Webhook
	Schedule  *Schedule
	Budget    *Budget
	MCPServer *MCPServer
	Channel   *Channel
}

// Reference is a definition that another one names.
type Reference struct {
	Kind  string
	Name  string
	Field string // where it is named
	// Line and Column are its place in the file; 0 when read from a stored body.
	Line, Column int
}

// definition is what the kinds have in common.
type definition interface {
	meta() *Metadata
	fill()                    // set defaults
	check(d *decoder, s spot) // rules beyond types
	References() []Reference
}

func (m *Metadata) meta() *Metadata { return m }

var (
	_ definition = (*Agent)(nil)
	_ definition = (*Flow)(nil)
	_ definition = (*Tool)(nil)
	_ definition = (*Model)(nil)
	_ definition = (*Webhook)(nil)
	_ definition = (*Schedule)(nil)
	_ definition = (*Budget)(nil)
	_ definition = (*MCPServer)(nil)
	_ definition = (*Channel)(nil)
)

func (doc *Document) blank(kind string) definition {
	switch kind {
	case KindAgent:
		doc.Agent = &Agent{}
		return doc.Agent
	case KindFlow:
		doc.Flow = &Flow{}
		return doc.Flow
	case KindTool:
		doc.Tool = &Tool{}
		return doc.Tool
	case KindModel:
		doc.Model = &Model{}
		return doc.Model
	case KindWebhook:
		doc.Webhook = &Webhook{}
		return doc.Webhook
	case KindSchedule:
		doc.Schedule = &Schedule{}
		return doc.Schedule
	case KindMCPServer:
		doc.MCPServer = &MCPServer{}
		return doc.MCPServer
	case KindChannel:
		doc.Channel = &Channel{}
		return doc.Channel
	}
	doc.Budget = &Budget{}
	return doc.Budget
}

// References names the definitions that this one needs in its namespace.
func (doc *Document) References() []Reference {
	if doc.definition == nil {
		return nil
	}
	refs := doc.definition.References()
	for i := range refs {
		if n := doc.root.find(refs[i].Field); n != nil {
			refs[i].Line, refs[i].Column = n.line, n.column
		}
	}
	return refs
}

// envelope is a document as it is stored.
type envelope struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   Metadata `json:"metadata"`
	Spec       any      `json:"spec"`
}

var envelopeFields = []string{"apiVersion", "kind", "metadata", "spec"}

// document reads one document from its node. The result is only good when d
// gained no problem.
func (d *decoder) document(root *node) *Document {
	s := spot{n: root}
	if !d.want(s, mapNode) {
		return nil
	}
	for _, p := range root.pairs {
		if !contains(envelopeFields, p.key.text) {
			d.unknown(s, p.key, envelopeFields)
		}
	}
	var head struct {
		apiVersion, kind string
	}
	d.scalar(s.at("apiVersion"), root.get("apiVersion"), &head.apiVersion, APIVersion)
	d.scalar(s.at("kind"), root.get("kind"), &head.kind, strings.Join(names(kindNames), ", "))
	if head.apiVersion != "" {
		d.oneOf(s.at("apiVersion"), head.apiVersion, APIVersion)
	}
	doc := &Document{File: d.file, Line: root.line}
	if head.kind == "" || !d.oneOf(s.at("kind"), head.kind, names(kindNames)...) {
		d.metadata(s, &Metadata{})
		return nil
	}
	doc.Kind = kindNames[head.kind]
	def := doc.blank(doc.Kind)
	d.metadata(s, def.meta())
	if body := root.get("spec"); body == nil || body.kind == nullNode {
		d.fail(s.at("spec"), "is required: the fields of the %s", head.kind)
		return nil
	}
	before := len(d.problems)
	d.into(s.at("spec"), reflectOf(def))
	if s.at("spec").n.kind != mapNode {
		return nil
	}
	def.fill()
	def.check(d, s.at("spec"))
	if len(d.problems) > before {
		return nil
	}
	m := *def.meta()
	doc.root, doc.definition = root, def
	doc.Namespace, doc.Name, doc.Labels = m.Namespace, m.Name, m.Labels
	m.Namespace = ""
	body, err := encode(envelope{APIVersion, head.kind, m, def})
	if err != nil {
		d.fail(s, "%s", err)
		return nil
	}
	doc.Body, doc.Digest = body, events.DigestOf(body)
	return doc
}

func encode(e envelope) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil {
		return nil, fmt.Errorf("encode %s %s: %w", e.Kind, e.Metadata.Name, err)
	}
	return events.Canonical(b.Bytes())
}

// scalar reads a required text field of the envelope.
func (d *decoder) scalar(s spot, n *node, to *string, want string) {
	if n == nil || n.kind == nullNode {
		d.fail(s, "is required: %s", want)
		return
	}
	d.into(s, reflect.ValueOf(to).Elem())
}

var (
	labelKeyPattern = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._/-]{0,61}[A-Za-z0-9])?$`)
)

func (d *decoder) metadata(root spot, m *Metadata) {
	s := root.at("metadata")
	if n := root.n.get("metadata"); n == nil || n.kind == nullNode {
		d.fail(s, "is required: {name: ...}")
		return
	}
	d.into(s, reflectOf(m))
	if s.n.kind != mapNode {
		return
	}
	d.require(s.at("name"), m.Name != "", "a name")
	if m.Name != "" {
		d.name(s.at("name"), m.Name)
	}
	if m.Namespace != "" {
		if !ValidNamespace(m.Namespace) {
			d.fail(s.at("namespace"), "%q is not a namespace: 1 to 63 of a-z 0-9 -, a letter or digit at both ends", shorten(m.Namespace))
		}
	}
	if len(m.Labels) > MaxLabels {
		d.fail(s.at("labels"), "has %d labels; at most %d are allowed", len(m.Labels), MaxLabels)
	}
	for _, key := range names(m.Labels) {
		d.labelKey(s.at("labels", key), key)
		d.text(s.at("labels", key), m.Labels[key], 256)
	}
}

// ValidLabelKey reports whether key may name a label of a run or definition.
func ValidLabelKey(key string) bool { return labelKeyPattern.MatchString(key) }

func (d *decoder) labelKey(s spot, key string) {
	if !ValidLabelKey(key) {
		d.fail(s, "%q is not the key of a label: 1 to 63 of A-Z a-z 0-9 . _ / -, a letter or digit at both ends", shorten(key))
	}
}

// text bounds a text field.
func (d *decoder) text(s spot, value string, limit int) {
	if len(value) > limit {
		d.fail(s, "has %d bytes; at most %d are allowed", len(value), limit)
	}
}

// nameList checks a list of names without repeats.
func (d *decoder) nameList(s spot, list []string, limit int) {
	if len(list) > limit {
		d.fail(s, "has %d items; at most %d are allowed", len(list), limit)
		return
	}
	for i, name := range list {
		d.name(s.at(i), name)
		if contains(list[:i], name) {
			d.fail(s.at(i), "%q stands here twice", shorten(name))
		}
	}
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}
