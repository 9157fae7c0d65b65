package door

import (
	"maps"
	"net/http"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-run/holdfast/internal/authn"
)

// RawOperation is Raw for a route that belongs in the OpenAPI document: op
// describes it, with its parameters and answers. MaxBodyBytes bounds its body;
// 0 is the door's limit, OwnBody leaves it to h.
func (d *Door) RawOperation(op huma.Operation, need authn.Role, h http.Handler) {
	if op.MaxBodyBytes == 0 {
		op.MaxBodyBytes = d.cfg.MaxBody
	}
	d.handle(Route{Method: op.Method, Pattern: op.Path, Role: need, Work: isWork(&op)}, op.OperationID, op.MaxBodyBytes, h)
	op.Responses = maps.Clone(op.Responses)
	if op.Responses == nil {
		op.Responses = map[string]*huma.Response{}
	}
	if op.Responses["default"] == nil {
		op.Responses["default"] = &huma.Response{
			Description: "Error",
			Content:     map[string]*huma.MediaType{"application/problem+json": {Schema: SchemaOf[Problem](d)}},
		}
	}
	declareRole(&op, need)
	d.api.OpenAPI().AddOperation(&op)
}

// declareRole says in op's description who may call it.
func declareRole(op *huma.Operation, need authn.Role) {
	if need == Public {
		return
	}
	op.Security = append(op.Security, map[string][]string{"bearer": {}})
	op.Extensions = maps.Clone(op.Extensions)
	if op.Extensions == nil {
		op.Extensions = map[string]any{}
	}
	op.Extensions["x-holdfast-role"] = need.String()
}

// SchemaOf describes T in d's document and returns a reference to it.
func SchemaOf[T any](d *Door) *huma.Schema {
	return d.api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[T](), true, "")
}

// PathText, QueryText, QueryNumber and HeaderText describe one parameter of a
// raw operation.
func PathText(name, doc string) *huma.Param { return param("path", name, huma.TypeString, doc) }

func QueryText(name, doc string) *huma.Param { return param("query", name, huma.TypeString, doc) }

func QueryNumber(name, doc string) *huma.Param { return param("query", name, huma.TypeInteger, doc) }

func HeaderText(name, doc string) *huma.Param { return param("header", name, huma.TypeString, doc) }

func param(in, name, kind, doc string) *huma.Param {
	return &huma.Param{Name: name, In: in, Required: in == "path", Description: doc, Schema: &huma.Schema{Type: kind}}
}

// EventStream describes an answer of server-sent events.
func EventStream(doc string) *huma.Response {
	return &huma.Response{Description: doc, Content: map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: huma.TypeString}}}}
}

// Accepts reports whether r asks for media type kind in so many words.
func Accepts(r *http.Request, kind string) bool {
	for _, line := range r.Header.Values("Accept") {
		for part := range strings.SplitSeq(line, ",") {
			name, params, _ := strings.Cut(part, ";")
			if strings.EqualFold(strings.TrimSpace(name), kind) && !strings.Contains(strings.ReplaceAll(params, " ", "")+";", "q=0;") {
				return true
			}
		}
	}
	return false
}
