package httpapi

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/trigger"
	"github.com/holdfast-run/holdfast/web"
)

const startPath = "/ui/start"

// registerStartPages serves the form that starts a run. What it sends is a start like
// any other: the same rule takes or refuses it, and a form that is sent twice is one run.
func (a *api) registerStartPages(d *door.Door) {
	page(d, "GET "+startPath+"/{kind}/{name}", authn.Operator, a.startForm)
	page(d, "POST "+startPath+"/{kind}/{name}", authn.Operator, a.startByForm)
}

type startPage struct {
	web.Frame
	Kind, Target, Key                   string
	AsJSON, MayJSON                     bool
	Fields                              []fieldView
	Schema                              string
	Labels, Deadline, Priority          string
	LabelsWrong, DeadlineWrong          string
	Problems                            []string
	Priorities                          []string
	MaxLabels                           int
	InputWrong                          []string // of the input as a whole
	CallbackAllowed                     bool
	Callback, CallbackWrong, PriorWrong string
}

// fieldView is a field with what was typed and what is wrong with it.
type fieldView struct {
	ID, Name, Title, Hint, Kind, Value, Example string
	Options                                     []optionView
	Fields                                      []fieldView
	Errors                                      []string
	Required, Long                              bool
}

type optionView struct {
	Value, Label string
	Chosen       bool
}

// startTarget reads which agent or flow a form is for.
func (a *api) startTarget(r *http.Request, who authn.Principal) (trigger.Target, error) {
	kind := r.PathValue("kind")
	if kind != events.KindAgent && kind != events.KindFlow {
		return trigger.Target{}, door.NotFound("only an agent or a flow can be started")
	}
	return a.svc.StartTarget(r.Context(), who.Namespace, kind, r.PathValue("name"))
}

// startForm answers GET /ui/start/{kind}/{name}.
func (a *api) startForm(w http.ResponseWriter, r *http.Request) error {
	who, _ := authn.FromContext(r.Context())
	target, err := a.startTarget(r, who)
	if err != nil {
		return err
	}
	form := trigger.InputForm(target.Input)
	data := newStartPage(r, who, target, form, r.URL.Query().Get("as") == "json")
	data.Key = rand.Text()
	data.fill(form, func(f trigger.InputField) string { return f.Default }, nil)
	return web.Write(w, http.StatusOK, "start", data)
}

func newStartPage(r *http.Request, who authn.Principal, target trigger.Target, form trigger.InputField, asJSON bool) startPage {
	data := startPage{Frame: door.FrameOf(r, "Start "+r.PathValue("name")),
		Kind: target.Ref.Kind, Target: target.Ref.Name, MayJSON: form.Kind == trigger.FieldObject, Priorities: []string{events.PriorityInteractive, events.PriorityBatch},
		MaxLabels: trigger.MaxLabels, CallbackAllowed: target.Callback != nil}
	data.AsJSON = asJSON && data.MayJSON
	if len(target.Input) > 0 {
		data.Schema = string(target.Input)
	}
	return data
}

// fill makes the fields, each with what is wrong with it; what is wrong with none of
// them stands above.
func (p *startPage) fill(form trigger.InputField, value func(trigger.InputField) string, places []trigger.Place) {
	if p.AsJSON {
		form = form.AsJSON()
	}
	if form.Kind != trigger.FieldObject {
		form.Required = true
		if form.Title == "" {
			form.Title = "Input"
		}
	}
	errs := map[string][]string{}
	paths := controls(form)
	for _, place := range places {
		at := ""
		for _, path := range paths {
			rest, under := strings.CutPrefix(place.Path, path)
			if under && (rest == "" || rest[0] == '.' || rest[0] == '[') && len(path) > len(at) {
				at = path
			}
		}
		message := place.Message
		if at != place.Path {
			message = strings.TrimPrefix(strings.TrimPrefix(place.Path, at), ".") + " " + message
		}
		if at == "" {
			p.Problems = append(p.Problems, strings.TrimSpace(message))
			continue
		}
		errs[at] = append(errs[at], strings.TrimSpace(message))
	}
	id := 0
	var view func(f trigger.InputField) fieldView
	view = func(f trigger.InputField) fieldView {
		id++
		v := fieldView{ID: fmt.Sprintf("f-%d", id), Name: f.Path, Title: f.Title, Hint: f.Hint, Kind: f.Kind, Value: value(f), Example: f.Example, Errors: errs[f.Path], Required: f.Required, Long: f.Long}
		if f.Kind == trigger.FieldChoice {
			for _, o := range f.Options {
				v.Options = append(v.Options, optionView{o, optionLabel(o), o == v.Value})
			}
		}
		for _, m := range f.Fields {
			v.Fields = append(v.Fields, view(m))
		}
		return v
	}
	root := view(form)
	if form.Kind == trigger.FieldObject {
		p.Fields, p.InputWrong = root.Fields, root.Errors
		return
	}
	p.Fields = []fieldView{root}
}

// controls are the paths of a form's fields.
func controls(f trigger.InputField) []string {
	out := []string{f.Path}
	for _, m := range f.Fields {
		out = append(out, controls(m)...)
	}
	return out
}

// optionLabel is what a person reads for a value.
func optionLabel(raw string) string {
	var s string
	switch {
	case raw == "true":
		return "yes"
	case raw == "false":
		return "no"
	case json.Unmarshal([]byte(raw), &s) == nil:
		return s
	}
	return raw
}

// startByForm answers POST /ui/start/{kind}/{name}.
func (a *api) startByForm(w http.ResponseWriter, r *http.Request) error {
	who, _ := authn.FromContext(r.Context())
	if _, err := door.Form(r); err != nil {
		return err
	}
	target, err := a.startTarget(r, who)
	if err != nil {
		return err
	}
	form := trigger.InputForm(target.Input)
	data := newStartPage(r, who, target, form, r.PostForm.Get("as") == "json")
	data.Key = r.PostForm.Get("key")
	if data.Key == "" || len(data.Key) > trigger.MaxKey {
		return door.Error(http.StatusBadRequest, door.CodeBadRequest, "the form came without its key; open "+startPath+"/"+data.Kind+"/"+data.Target+" again")
	}
	data.Labels, data.Deadline, data.Priority, data.Callback = r.PostForm.Get("labels"), r.PostForm.Get("deadline"), r.PostForm.Get("priority"), r.PostForm.Get("callback")
	typed := func(f trigger.InputField) string { return r.PostForm.Get(f.Path) }
	again := func(places []trigger.Place) error {
		data.fill(form, typed, places)
		data.Notice = "Nothing was started."
		return web.Write(w, http.StatusUnprocessableEntity, "start", data)
	}
	asked := form
	if data.AsJSON {
		asked = form.AsJSON()
	}
	if asked.Kind != trigger.FieldObject {
		asked.Required = true
	}
	input, places := asked.Value(r.PostForm.Get)
	labels, wrong := labelsOf(data.Labels)
	data.LabelsWrong = wrong
	if len(places) > 0 || wrong != "" {
		return again(places)
	}
	body, err := events.Marshal(startBody{Input: input, Labels: labels, Deadline: strings.TrimSpace(data.Deadline), Priority: data.Priority, Callback: callbackOf(data.Callback)})
	if err != nil {
		return err
	}
	accepted, err := a.svc.API(r.Context(), trigger.APIStart{Namespace: who.Namespace, Principal: who.Name, Kind: data.Kind, Name: data.Target, Key: data.Key, Body: body})
	if refused, ok := trigger.AsRefusal(err); ok && refused.Code != trigger.CodeUnknownTarget {
		if len(refused.Places) == 0 {
			data.Problems = append(data.Problems, refused.Message)
		}
		return again(refused.Places)
	}
	if err != nil {
		return err
	}
	http.Redirect(w, r, "/ui/runs/"+string(accepted.RunID), http.StatusSeeOther)
	return nil
}

// startBody is the body of a start.
type startBody struct {
	Input    json.RawMessage   `json:"input"`
	Labels   map[string]string `json:"labels,omitempty"`
	Callback *events.Callback  `json:"callback,omitempty"`
	Deadline string            `json:"deadline,omitempty"`
	Priority string            `json:"priority,omitempty"`
}

func callbackOf(url string) *events.Callback {
	if url = strings.TrimSpace(url); url == "" {
		return nil
	}
	return &events.Callback{URL: url}
}

// labelsOf reads labels, one key=value a line.
func labelsOf(text string) (map[string]string, string) {
	out := map[string]string{}
	for i, line := range slices.Collect(strings.Lines(text)) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok {
			return nil, fmt.Sprintf("line %d is not key=value", i+1)
		}
		out[strings.TrimSpace(key)] = strings.TrimSpace(value)
	}
	return out, ""
}
