package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/console"
)

// Codes of programs' own runs.
const (
	CodeStale        = "stale_checkpoint"
	CodeNoVersion    = "version_required"
	CodeProgramRun   = "program_run"
	headerReplayed   = "Idempotency-Replayed"
	maxProgramBody   = 1 << 20
	checkpointFrames = 4096 // bytes around a state
)

type programBody struct {
	Name   string            `json:"name" doc:"of the program"`
	Input  json.RawMessage   `json:"input,omitempty" doc:"any JSON value; {} when it is absent"`
	Labels map[string]string `json:"labels,omitempty" doc:"at most 16"`
}

type programStarted struct {
	RunID     events.RunID `json:"run_id"`
	Status    string       `json:"status"`
	StatusURL string       `json:"status_url"`
}

type checkpointBody struct {
	State json.RawMessage `json:"state" doc:"any JSON value; every digit is kept"`
}

type checkpoint struct {
	RunID   events.RunID    `json:"run_id"`
	Version int64           `json:"version" doc:"also the ETag; 0 before the first one"`
	Status  string          `json:"status" enum:"running,completed,failed,cancelled" doc:"of the run"`
	State   json.RawMessage `json:"state,omitempty"`
	SavedAt time.Time       `json:"saved_at,omitzero"`
}

type endBody struct {
	Status string          `json:"status" enum:"completed,failed,cancelled"`
	Output json.RawMessage `json:"output,omitempty" doc:"of a run that completed"`
	Error  *events.Problem `json:"error,omitempty" doc:"of one that did not: code and message"`
}

// programs are the runs whose loop is a program of the user. Their bodies are
// read as they are: no number passes a float.
func (a *api) programs() {
	tags := []string{"programs"}
	id := door.PathText("id", "of the run")
	key := door.HeaderText("Idempotency-Key", "names this request: a repeat is the same one. At most 200 characters")
	a.door.RawOperation(huma.Operation{
		OperationID: "start-program", Metadata: door.Work(), Method: http.MethodPost, Path: "/v1/runs", Tags: tags,
		Summary:      "Start a run whose loop is the caller's own program",
		Description:  "Holdfast keeps its state and never runs it. The same Idempotency-Key with the same request is the same run, so a program that was killed comes back to it; with another request 409.",
		Parameters:   []*huma.Param{key},
		MaxBodyBytes: door.OwnBody,
		RequestBody:  door.JSONBody(door.SchemaOf[programBody](a.door)),
		Responses: map[string]*huma.Response{
			"201": door.JSONAnswer("the run is stored", door.SchemaOf[programStarted](a.door)),
			"200": door.JSONAnswer("the key had started it before", door.SchemaOf[programStarted](a.door)),
		},
	}, authn.Operator, door.JSONHandler(a.startProgram))
	a.door.RawOperation(huma.Operation{
		OperationID: "load-checkpoint", Method: http.MethodGet, Path: "/v1/runs/{id}/checkpoint", Tags: tags,
		Summary:    "Load the state of a program's run",
		Parameters: []*huma.Param{id, door.QueryNumber("version", "of an earlier checkpoint; the newest when absent")},
		Responses:  map[string]*huma.Response{"200": door.JSONAnswer("the state; its ETag is what If-Match takes", door.SchemaOf[checkpoint](a.door))},
	}, authn.Viewer, door.JSONHandler(a.loadCheckpoint))
	a.door.RawOperation(huma.Operation{
		OperationID: "save-checkpoint", Metadata: door.Work(), Method: http.MethodPut, Path: "/v1/runs/{id}/checkpoint", Tags: tags,
		Summary: "Save the state of a program's run over the version that was loaded",
		Description: "412 stale_checkpoint: somebody else has saved since. 428: If-Match is missing. 409 run_ended. " +
			fmt.Sprintf("The newest %d are kept. A repeat with the same Idempotency-Key over the same version is the same save.", console.KeptCheckpoints),
		Parameters:   []*huma.Param{id, door.HeaderText("If-Match", `the version that was loaded, in quotes: "3"; "0" for the first`), key},
		MaxBodyBytes: door.OwnBody,
		RequestBody:  door.JSONBody(door.SchemaOf[checkpointBody](a.door)),
		Responses:    map[string]*huma.Response{"200": door.JSONAnswer("it is stored; without the state", door.SchemaOf[checkpoint](a.door))},
	}, authn.Operator, door.JSONHandler(a.saveCheckpoint))
	a.door.RawOperation(huma.Operation{
		OperationID: "complete-program", Method: http.MethodPost, Path: "/v1/runs/{id}/complete", Tags: tags,
		Summary:      "End a program's run",
		Description:  "The same end again is answered as the first one was; another is 409 run_ended. An operator ends a run of a program that is gone by it as well.",
		Parameters:   []*huma.Param{id},
		MaxBodyBytes: door.OwnBody,
		RequestBody:  door.JSONBody(door.SchemaOf[endBody](a.door)),
		Responses:    map[string]*huma.Response{"200": door.JSONAnswer("it has ended", door.SchemaOf[programStarted](a.door))},
	}, authn.Operator, door.JSONHandler(a.endProgram))
}

func (a *api) startProgram(w http.ResponseWriter, r *http.Request) error {
	in, err := door.ReadJSON[programBody](r, maxProgramBody)
	if err != nil {
		return err
	}
	p, _ := authn.FromContext(r.Context())
	run, status, replayed, err := a.console.StartProgram(r.Context(), console.Program{
		Namespace: p.Namespace, Principal: p.Name, Name: in.Name, Input: in.Input, Labels: in.Labels, Key: r.Header.Get("Idempotency-Key"),
	})
	if err != nil {
		return programProblem(err, "run")
	}
	w.Header().Set("Location", "/v1/runs/"+string(run))
	code := http.StatusCreated
	if replayed {
		w.Header().Set(headerReplayed, "true")
		code = http.StatusOK
	}
	door.AnswerJSON(w, r, code, programStarted{RunID: run, Status: status, StatusURL: "/v1/runs/" + string(run)})
	return nil
}

func (a *api) loadCheckpoint(w http.ResponseWriter, r *http.Request) error {
	id, err := runOf(r)
	if err != nil {
		return err
	}
	version := int64(-1)
	if text := r.URL.Query().Get("version"); text != "" {
		if version, err = strconv.ParseInt(text, 10, 64); err != nil || version < 0 {
			return door.Error(http.StatusUnprocessableEntity, door.CodeInvalidInput, "version is a number").At("query.version", "not a number")
		}
	}
	p, _ := authn.FromContext(r.Context())
	c, err := a.console.LoadCheckpoint(r.Context(), p.Namespace, id, version)
	if err != nil {
		return programProblem(err, "checkpoint of a program's run %s", id)
	}
	w.Header().Set("ETag", etag(c.Version))
	door.AnswerJSON(w, r, http.StatusOK, checkpoint{RunID: id, Version: c.Version, Status: c.Status, State: c.State, SavedAt: c.SavedAt})
	return nil
}

func (a *api) saveCheckpoint(w http.ResponseWriter, r *http.Request) error {
	id, err := runOf(r)
	if err != nil {
		return err
	}
	over, err := ifMatch(r)
	if err != nil {
		return err
	}
	limit := a.console.CheckpointBytes()
	in, err := door.ReadJSON[checkpointBody](r, limit+checkpointFrames)
	if err != nil {
		return err
	}
	if len(in.State) == 0 {
		return door.Error(http.StatusUnprocessableEntity, door.CodeInvalidInput, "the body has no state").At("body.state", "missing")
	}
	if int64(len(in.State)) > limit {
		return door.Error(http.StatusRequestEntityTooLarge, door.CodeBodyTooLarge, fmt.Sprintf("the state has %d bytes, the limit is %d; keep large things elsewhere and their names here", len(in.State), limit))
	}
	key := r.Header.Get("Idempotency-Key")
	if len(key) > 200 {
		return door.Error(http.StatusUnprocessableEntity, door.CodeInvalidInput, "the Idempotency-Key has more than 200 bytes").At("header.Idempotency-Key", "too long")
	}
	p, _ := authn.FromContext(r.Context())
	c, err := a.console.SaveCheckpoint(r.Context(), console.Save{Namespace: p.Namespace, RunID: id, Over: over, State: in.State, Key: key})
	if errors.Is(err, console.ErrStale) {
		w.Header().Set("ETag", etag(c.Version))
		return door.Error(http.StatusPreconditionFailed, CodeStale,
			fmt.Sprintf("the run is at version %d, the checkpoint was saved over %d: another process saved meanwhile; load again, or let the other one go on", c.Version, over))
	}
	if err != nil {
		return programProblem(err, "program's run %s", id)
	}
	w.Header().Set("ETag", etag(c.Version))
	door.AnswerJSON(w, r, http.StatusOK, checkpoint{RunID: id, Version: c.Version, Status: c.Status, SavedAt: c.SavedAt.UTC()})
	return nil
}

func (a *api) endProgram(w http.ResponseWriter, r *http.Request) error {
	id, err := runOf(r)
	if err != nil {
		return err
	}
	in, err := door.ReadJSON[endBody](r, maxProgramBody)
	if err != nil {
		return err
	}
	p, _ := authn.FromContext(r.Context())
	status, err := a.console.EndProgram(r.Context(), console.End{Namespace: p.Namespace, RunID: id, Status: in.Status, Output: in.Output, Error: in.Error})
	if err != nil {
		return programProblem(err, "program's run %s", id)
	}
	door.AnswerJSON(w, r, http.StatusOK, programStarted{RunID: id, Status: status, StatusURL: "/v1/runs/" + string(id)})
	return nil
}

func runOf(r *http.Request) (events.RunID, error) {
	id := events.RunID(r.PathValue("id"))
	if !id.Valid() {
		return "", door.NotFound("%.60q is not the id of a run", string(id))
	}
	return id, nil
}

func etag(version int64) string { return strconv.Quote(strconv.FormatInt(version, 10)) }

// ifMatch reads the version that the caller has loaded.
func ifMatch(r *http.Request) (int64, error) {
	text := strings.TrimSpace(r.Header.Get("If-Match"))
	if text == "" {
		return 0, door.Error(http.StatusPreconditionRequired, CodeNoVersion, `say over which version this is saved: If-Match: "3"; "0" for the first`)
	}
	version, err := strconv.ParseInt(strings.Trim(text, `"`), 10, 64)
	if err != nil || version < 0 {
		return 0, door.Error(http.StatusPreconditionFailed, CodeStale, `If-Match is not a version; it is the ETag of the checkpoint, such as "3"`)
	}
	return version, nil
}

func programProblem(err error, what string, args ...any) error {
	if errors.Is(err, console.ErrInvalid) {
		return door.Error(http.StatusUnprocessableEntity, door.CodeInvalidInput, err.Error())
	}
	return problem(err, what, args...)
}
