package toolfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/pb33f/libopenapi"
	"github.com/pb33f/libopenapi/datamodel"
	v3 "github.com/pb33f/libopenapi/datamodel/high/v3"

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
	doc, err := libopenapi.NewDocumentWithConfiguration(text, &datamodel.DocumentConfiguration{AllowFileReferences: false, AllowRemoteReferences: false})
	if err != nil {
		return nil, nil, fmt.Errorf("read OpenAPI description: %w", err)
	}
	if !strings.HasPrefix(doc.GetVersion(), "3.") {
		return nil, nil, fmt.Errorf("the description is of version %.20q; only OpenAPI 3 is read, so convert it first", doc.GetVersion())
	}
	model, err := doc.BuildV3Model()
	if model == nil {
		return nil, nil, fmt.Errorf("read OpenAPI description: %w", err)
	}
	im := importer{options: o, model: &model.Model, schemas: &schemas{root: doc.GetSpecInfo().RootNode, old: strings.HasPrefix(doc.GetVersion(), "3.0")}}
	if im.model.Paths == nil || im.model.Paths.PathItems == nil {
		return nil, nil, errors.New("the description has no paths")
	}
	var out []*Document
	var skipped []Skipped
	seen := map[string]bool{}
	for path, item := range im.model.Paths.PathItems.FromOldest() {
		for _, op := range operations(path, item) {
			name := Name(op.id())
			if len(o.Include) > 0 && !slices.Contains(o.Include, op.OperationId) && !slices.Contains(o.Include, name) {
				continue
			}
			seen[op.OperationId], seen[name] = true, true
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
	*v3.Operation
	method, path string
	parameters   []*v3.Parameter
}

func (o operation) id() string {
	if o.OperationId != "" {
		return o.OperationId
	}
	return o.method + " " + o.path
}

// operations lists a path's operations. What is said of all of them is
// overridden by an operation's own parameter of the same name and place.
func operations(path string, item *v3.PathItem) []operation {
	var out []operation
	for _, x := range []struct {
		method string
		op     *v3.Operation
	}{{"GET", item.Get}, {"HEAD", item.Head}, {"PUT", item.Put}, {"POST", item.Post}, {"PATCH", item.Patch}, {"DELETE", item.Delete}} {
		if x.op == nil {
			continue
		}
		o := operation{Operation: x.op, method: x.method, path: path, parameters: slices.Clone(x.op.Parameters)}
		for _, p := range item.Parameters {
			if !slices.ContainsFunc(x.op.Parameters, func(own *v3.Parameter) bool { return own.Name == p.Name && own.In == p.In }) {
				o.parameters = append(o.parameters, p)
			}
		}
		out = append(out, o)
	}
	return out
}

type importer struct {
	options OpenAPIOptions
	model   *v3.Document
	schemas *schemas
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
	server, err := im.server(op)
	if err != nil {
		return nil, err
	}
	r := request{Method: op.method, Query: map[string]any{}, Headers: map[string]string{}, Secrets: map[string]spec.SecretRef{}}
	in := im.schemas.input()
	path := op.path
	places := map[string]string{}
	for _, p := range op.parameters {
		arg, err := in.add(p)
		if err != nil {
			return nil, err
		}
		if arg == "" {
			d.Comments = append(d.Comments, fmt.Sprintf("The %s parameter %s is optional and left out.", p.In, p.Name))
			continue
		}
		value := "${args" + member(arg) + "}"
		switch p.In {
		case "path":
			places["{"+p.Name+"}"] = value
		case "query":
			r.Query[p.Name] = queryValue(p, value)
		case "header":
			r.Headers[p.Name] = value
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
	if op.Deprecated != nil && *op.Deprecated {
		d.Comments = append(d.Comments, "The API calls this operation deprecated.")
	}
	return d, d.setAll("description", describe(op), "input", input, "effect", effects[op.method], "http", r)
}

func describe(op operation) string {
	parts := slices.DeleteFunc([]string{strings.TrimSpace(op.Summary), strings.TrimSpace(op.Description)}, func(s string) bool { return s == "" })
	if len(parts) == 0 {
		return op.method + " " + op.path
	}
	return clip(strings.Join(parts, "\n\n"), 4000)
}

// server is the URL before the path, without a slash at its end.
func (im importer) server(op operation) (string, error) {
	address := im.options.Server
	if address == "" {
		list := op.Servers
		if len(list) == 0 {
			list = im.model.Servers
		}
		if len(list) == 0 {
			return "", errors.New("the description names no server; say where the API is with --api URL")
		}
		address = list[0].URL
		for name, v := range list[0].Variables.FromOldest() {
			address = strings.ReplaceAll(address, "{"+name+"}", v.Default)
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

func queryValue(p *v3.Parameter, value string) any {
	style := p.Style
	if style == "" {
		style = spec.StyleForm
	}
	explode := style == spec.StyleForm || style == spec.StyleDeep
	if p.Explode != nil {
		explode = *p.Explode
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
	if op.RequestBody == nil {
		if takes {
			r.Body = &none
		}
		return nil
	}
	if !takes {
		return fmt.Errorf("a %s request with a body cannot be sent", op.method)
	}
	var found []string
	for kind, media := range op.RequestBody.Content.FromOldest() {
		base := strings.ToLower(strings.TrimSpace(strings.Split(kind, ";")[0]))
		if base != "application/json" && !strings.HasSuffix(base, "+json") {
			found = append(found, kind)
			continue
		}
		arg, err := in.addBody(media.Schema, op.RequestBody.Description)
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
	list := op.Security
	if op.Operation.Security == nil {
		list = im.model.Security
	}
	if len(list) == 0 || im.model.Components == nil || list[0].Requirements == nil {
		return
	}
	for name := range list[0].Requirements.FromOldest() {
		s := im.model.Components.SecuritySchemes.GetOrZero(name)
		if s == nil {
			continue
		}
		secret := strings.ReplaceAll(Name(name), "-", "_")
		if secret == "" || secret[0] >= '0' && secret[0] <= '9' {
			secret = "s_" + secret
		}
		env := "HOLDFAST_SECRET_" + strings.ToUpper(secret)
		value, what := "${secret."+secret+"}", ""
		header := "Authorization"
		switch {
		case s.Type == "apiKey" && s.In == "header":
			header, what = s.Name, "the API key"
		case s.Type == "apiKey":
			d.Comments = append(d.Comments, fmt.Sprintf("The API wants a key in the %s parameter %s, where it would end up in logs; it is left out.", s.In, s.Name))
			continue
		case s.Type == "http" && strings.EqualFold(s.Scheme, "basic"):
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

func (s *schemas) input() *input { return &input{schemas: s, defs: map[string]bool{}} }

func (in *input) free(name, prefix string) string {
	for slices.ContainsFunc(in.properties, func(f field) bool { return f.key == name }) {
		name = prefix + "_" + name
	}
	return name
}

// add adds a parameter and returns its argument's name; "" when it is left out.
func (in *input) add(p *v3.Parameter) (string, error) {
	required := p.Required != nil && *p.Required || p.In == "path"
	switch p.In {
	case "path", "query":
	case "header":
		if !required {
			return "", nil
		}
	default:
		if !required {
			return "", nil
		}
		return "", fmt.Errorf("the %s parameter %s cannot be sent", p.In, p.Name)
	}
	if p.Schema == nil {
		return "", fmt.Errorf("the parameter %s has no schema", p.Name)
	}
	schema, err := in.schemas.of(p.Schema, in.defs)
	if err != nil {
		return "", fmt.Errorf("parameter %s: %w", p.Name, err)
	}
	if p.In != "query" && schema.isList() {
		return "", fmt.Errorf("the %s parameter %s is a list or an object, which cannot be sent there", p.In, p.Name)
	}
	name := in.free(p.Name, p.In)
	in.properties = append(in.properties, field{name, schema.described(p.Description)})
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
