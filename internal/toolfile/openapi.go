package toolfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// OpenAPIOptions choose what FromOpenAPI makes.
type OpenAPIOptions struct {
	Server  string   // where the API is; default the description's first server
	Include []string // operation ids or tool names; empty: every operation
}

// maxOpenAPIBytes bounds a description.
const maxOpenAPIBytes = 16 << 20

// FromOpenAPI makes a document of kind http of each operation of an OpenAPI 3
// description. The arguments are the parameters by their names, and body.
//
// GET and HEAD read, PUT and DELETE may be repeated with the same outcome, POST
// and PATCH act. Other files are never read: an operation that refers to one is
// skipped, and so is one that this kind of tool cannot send.
func FromOpenAPI(text []byte, o OpenAPIOptions) ([]*Document, []Skipped, error) {
	if len(text) > maxOpenAPIBytes {
		return nil, nil, fmt.Errorf("the description has %d bytes; at most %d are read", len(text), maxOpenAPIBytes)
	}
	doc, err := readDescription(text)
	if err != nil {
		return nil, nil, fmt.Errorf("read OpenAPI description: %w", err)
	}
	if !strings.HasPrefix(doc.version, "3.") {
		return nil, nil, fmt.Errorf("the description is of version %.20q; only OpenAPI 3 is read, so convert it first", doc.version)
	}
	paths := valueOf(doc.root, "paths")
	if paths == nil || paths.Kind != yaml.MappingNode {
		return nil, nil, errors.New("the description has no paths")
	}
	im := importer{options: o, description: doc, schemas: &schemas{description: doc, old: strings.HasPrefix(doc.version, "3.0")}}
	var out []*Document
	var skipped []Skipped
	seen := map[string]bool{}
	for _, p := range pairsOf(paths) {
		if strings.HasPrefix(p.key, "x-") {
			continue
		}
		item, err := doc.object(p.value, "the path")
		if err != nil {
			skipped = append(skipped, Skipped{p.key, err.Error()})
			continue
		}
		for _, op := range im.operations(p.key, item) {
			id := op.text("operationId")
			name := Name(op.id())
			if len(o.Include) > 0 && !slices.Contains(o.Include, id) && !slices.Contains(o.Include, name) {
				continue
			}
			seen[id], seen[name] = true, true
			d, err := im.document(op, name)
			if err != nil {
				skipped = append(skipped, Skipped{op.id(), err.Error()})
				continue
			}
			out = append(out, d)
		}
	}
	for _, want := range o.Include {
		if !seen[want] {
			return nil, nil, fmt.Errorf("the description has no operation %s", want)
		}
	}
	out, skipped = keep(out, skipped)
	return out, skipped, nil
}

// operation is one operation and where it stands.
type operation struct {
	method, path string
	node, item   *yaml.Node
	problem      error // why it cannot be read
}

func (o operation) text(key string) string { return textOf(valueOf(o.node, key)) }

func (o operation) id() string {
	if id := o.text("operationId"); id != "" {
		return id
	}
	return o.method + " " + o.path
}

// operations lists a path's operations.
func (im importer) operations(path string, item *yaml.Node) []operation {
	var out []operation
	for _, method := range []string{"GET", "HEAD", "PUT", "POST", "PATCH", "DELETE"} {
		if n := valueOf(item, strings.ToLower(method)); n != nil {
			n, err := im.description.object(n, "the operation")
			out = append(out, operation{method, path, n, item, err})
		}
	}
	return out
}

// parameter is one parameter of an operation.
type parameter struct {
	name, in, style string
	description     string
	required        bool
	explode, schema *yaml.Node
}

// parameters lists an operation's parameters. What is said of all operations of
// its path is overridden by its own parameter of the same name and place.
func (im importer) parameters(op operation) ([]parameter, error) {
	var out []parameter
	for _, from := range []*yaml.Node{op.node, op.item} {
		list, err := listOf(valueOf(from, "parameters"), "parameters")
		if err != nil {
			return nil, err
		}
		own := len(out)
		for i, n := range list {
			what := fmt.Sprintf("parameter %d", i+1)
			if n, err = im.description.object(n, what); err != nil {
				return nil, err
			}
			p := parameter{name: textOf(valueOf(n, "name")), in: textOf(valueOf(n, "in")), style: textOf(valueOf(n, "style")), description: textOf(valueOf(n, "description")),
				required: isTrue(valueOf(n, "required")), explode: valueOf(n, "explode"), schema: valueOf(n, "schema")}
			if p.name == "" || p.in == "" {
				return nil, fmt.Errorf("%s does not say its name and where it is sent", what)
			}
			if !slices.ContainsFunc(out[:own], func(o parameter) bool { return o.name == p.name && o.in == p.in }) {
				out = append(out, p)
			}
		}
	}
	return out, nil
}

type importer struct {
	options     OpenAPIOptions
	description *description
	schemas     *schemas
}

var effects = map[string]string{
	"GET": spec.EffectRead, "HEAD": spec.EffectRead, "PUT": spec.EffectIdempotent, "DELETE": spec.EffectIdempotent,
	"POST": spec.EffectWrite, "PATCH": spec.EffectWrite,
}

// request is the http section that is being written.
type request struct {
	Method  string                    `json:"method"`
	URL     string                    `json:"url"`
	Query   map[string]any            `json:"query,omitempty"`
	Headers map[string]string         `json:"headers,omitempty"`
	Body    *string                   `json:"body,omitempty"`
	Secrets map[string]spec.SecretRef `json:"secrets,omitempty"`
}

func (im importer) document(op operation, name string) (*Document, error) {
	d := &Document{Name: name}
	if op.problem != nil {
		return nil, op.problem
	}
	server, err := im.server(op)
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(op.path, "/") {
		return nil, fmt.Errorf("its path %.100q does not begin with /", op.path)
	}
	parameters, err := im.parameters(op)
	if err != nil {
		return nil, err
	}
	r := request{Method: op.method, Query: map[string]any{}, Headers: map[string]string{}, Secrets: map[string]spec.SecretRef{}}
	in := im.schemas.input()
	path := op.path
	places := map[string]string{}
	for _, p := range parameters {
		arg, err := in.add(p)
		if err != nil {
			return nil, err
		}
		if arg == "" {
			d.Comments = append(d.Comments, fmt.Sprintf("The %s parameter %s is optional and left out.", p.in, p.name))
			continue
		}
		value := "${args" + member(arg) + "}"
		switch p.in {
		case "path":
			places["{"+p.name+"}"] = value
		case "query":
			r.Query[p.name] = queryValue(p, value)
		case "header":
			r.Headers[p.name] = value
		}
	}
	if r.URL, err = fill(server, path, places); err != nil {
		return nil, err
	}
	if err := im.body(op, &r, in); err != nil {
		return nil, err
	}
	im.security(op, &r, d)
	input, err := in.schema()
	if err != nil {
		return nil, err
	}
	if isTrue(valueOf(op.node, "deprecated")) {
		d.Comments = append(d.Comments, "The API calls this operation deprecated.")
	}
	return d, d.setAll("description", describe(op), "input", input, "effect", effects[op.method], "http", r)
}

func describe(op operation) string {
	parts := slices.DeleteFunc([]string{strings.TrimSpace(op.text("summary")), strings.TrimSpace(op.text("description"))}, func(s string) bool { return s == "" })
	if len(parts) == 0 {
		return op.method + " " + op.path
	}
	return clip(strings.Join(parts, "\n\n"), 4000)
}

// server is the URL before the path, without a slash at its end.
func (im importer) server(op operation) (string, error) {
	address := im.options.Server
	if address == "" {
		var server *yaml.Node
		for _, from := range []*yaml.Node{op.node, op.item, im.description.root} {
			list, err := listOf(valueOf(from, "servers"), "servers")
			if err != nil {
				return "", err
			}
			if len(list) > 0 {
				server = list[0]
				break
			}
		}
		if server == nil {
			return "", errors.New("the description names no server; say where the API is with --api URL")
		}
		address = textOf(valueOf(server, "url"))
		for _, v := range pairsOf(valueOf(server, "variables")) {
			address = strings.ReplaceAll(address, "{"+v.key+"}", textOf(valueOf(v.value, "default")))
		}
	}
	if strings.HasPrefix(address, "${env.") {
		return strings.TrimRight(address, "/"), nil
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return "", fmt.Errorf("the server %.100q is not an absolute http or https URL; say where the API is with --api URL", address)
	}
	return strings.TrimRight(address, "/"), nil
}

var placePattern = regexp.MustCompile(`\{[^{}/]*\}`)

// fill writes the path with its parameters behind the server.
func fill(server, path string, places map[string]string) (string, error) {
	var missing error
	path = placePattern.ReplaceAllStringFunc(strings.ReplaceAll(path, "${", "$${"), func(place string) string {
		v, ok := places[place]
		if !ok {
			missing = fmt.Errorf("the path names %s, which is not among the parameters", place)
		}
		delete(places, place)
		return v
	})
	if missing != nil {
		return "", missing
	}
	for place := range places {
		return "", fmt.Errorf("the parameter %s does not stand in the path", place)
	}
	return server + path, nil
}

var wordPattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

// member is the step of a template's path to a member.
func member(name string) string {
	if wordPattern.MatchString(name) {
		return "." + name
	}
	return "[" + fmt.Sprintf("%q", name) + "]"
}

func queryValue(p parameter, value string) any {
	style := p.style
	if style == "" {
		style = spec.StyleForm
	}
	explode := style == spec.StyleForm || style == spec.StyleDeep
	if p.explode != nil {
		explode = isTrue(p.explode)
	}
	if style == spec.StyleForm && explode {
		return value
	}
	return struct {
		Value   string `json:"value"`
		Style   string `json:"style"`
		Explode bool   `json:"explode"`
	}{value, style, explode}
}

// body adds the request's JSON body as one argument.
func (im importer) body(op operation, r *request, in *input) error {
	none := ""
	takes := op.method == "POST" || op.method == "PUT" || op.method == "PATCH"
	wanted, err := im.description.object(valueOf(op.node, "requestBody"), "its body")
	if err != nil {
		return err
	}
	if wanted == nil {
		if takes {
			r.Body = &none
		}
		return nil
	}
	if !takes {
		return fmt.Errorf("a %s request with a body cannot be sent", op.method)
	}
	var found []string
	for _, p := range pairsOf(valueOf(wanted, "content")) {
		kind := p.key
		base := strings.ToLower(strings.TrimSpace(strings.Split(kind, ";")[0]))
		if base != "application/json" && !strings.HasSuffix(base, "+json") {
			found = append(found, kind)
			continue
		}
		arg, err := in.addBody(valueOf(p.value, "schema"), textOf(valueOf(wanted, "description")))
		if err != nil {
			return err
		}
		value := "${args" + member(arg) + "}"
		r.Body = &value
		r.Headers["Content-Type"] = kind
		return nil
	}
	return fmt.Errorf("its body is %s; only JSON can be sent", strings.Join(found, ", "))
}

// security adds what the operation's first requirement wants, as references to
// secrets that the operator has to set.
func (im importer) security(op operation, r *request, d *Document) {
	list := valueOf(op.node, "security")
	if list == nil {
		list = valueOf(im.description.root, "security")
	}
	if list == nil || list.Kind != yaml.SequenceNode || len(list.Content) == 0 {
		return
	}
	defined := valueOf(valueOf(im.description.root, "components"), "securitySchemes")
	for _, p := range pairsOf(list.Content[0]) {
		name := p.key
		s, err := im.description.object(valueOf(defined, name), "security scheme "+name)
		if err != nil || s == nil {
			continue
		}
		secret := strings.ReplaceAll(Name(name), "-", "_")
		if secret == "" || secret[0] >= '0' && secret[0] <= '9' {
			secret = "s_" + secret
		}
		env := "HOLDFAST_SECRET_" + strings.ToUpper(secret)
		value, what := "${secret."+secret+"}", ""
		header := "Authorization"
		kind, in := textOf(valueOf(s, "type")), textOf(valueOf(s, "in"))
		switch {
		case kind == "apiKey" && in == "header":
			header, what = textOf(valueOf(s, "name")), "the API key"
		case kind == "apiKey":
			d.Comments = append(d.Comments, fmt.Sprintf("The API wants a key in the %s parameter %s, where it would end up in logs; it is left out.", in, textOf(valueOf(s, "name"))))
			continue
		case kind == "http" && strings.EqualFold(textOf(valueOf(s, "scheme")), "basic"):
			value, what = "Basic "+value, "base64 of user:password"
		default:
			value, what = "Bearer "+value, "the bearer token"
		}
		r.Headers[header] = value
		r.Secrets[secret] = spec.SecretRef{Env: env}
		d.Comments = append(d.Comments, fmt.Sprintf("Set %s where the tools service runs: %s.", env, what))
	}
}

// input collects the arguments of one operation.
type input struct {
	schemas    *schemas
	properties []field
	required   []string
	defs       map[string]bool // pointers into the description
}

func (s *schemas) input() *input {
	s.values = 0
	return &input{schemas: s, defs: map[string]bool{}}
}

func (in *input) free(name, prefix string) string {
	for slices.ContainsFunc(in.properties, func(f field) bool { return f.key == name }) {
		name = prefix + "_" + name
	}
	return name
}

// add adds a parameter and returns its argument's name; "" when it is left out.
func (in *input) add(p parameter) (string, error) {
	required := p.required || p.in == "path"
	switch p.in {
	case "path", "query":
	case "header":
		if !required {
			return "", nil
		}
	default:
		if !required {
			return "", nil
		}
		return "", fmt.Errorf("the %s parameter %s cannot be sent", p.in, p.name)
	}
	if p.schema == nil {
		return "", fmt.Errorf("the parameter %s has no schema", p.name)
	}
	schema, err := in.schemas.of(p.schema, in.defs)
	if err != nil {
		return "", fmt.Errorf("parameter %s: %w", p.name, err)
	}
	if p.in != "query" && schema.isList() {
		return "", fmt.Errorf("the %s parameter %s is a list or an object, which cannot be sent there", p.in, p.name)
	}
	name := in.free(p.name, p.in)
	in.properties = append(in.properties, field{name, schema.described(p.description)})
	if required {
		in.required = append(in.required, name)
	}
	return name, nil
}

// schema is the JSON Schema of all arguments, with every definition that it
// refers to.
func (in *input) schema() (json.RawMessage, error) {
	defs, err := in.schemas.definitions(in.defs)
	if err != nil {
		return nil, err
	}
	out := []field{{"type", json.RawMessage(`"object"`)}, {"properties", object(in.properties)}}
	if len(in.required) > 0 {
		raw, err := events.Marshal(in.required)
		if err != nil {
			return nil, err
		}
		out = append(out, field{"required", raw})
	}
	out = append(out, field{"additionalProperties", json.RawMessage("false")})
	if len(defs) > 0 {
		out = append(out, field{"$defs", object(defs)})
	}
	return object(out), nil
}
