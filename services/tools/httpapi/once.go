package httpapi

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/tools"
)

// registerOnce adds the routes by which programs that are not our agents use
// the ledger. Their bodies are read as they are: no number passes a float.
func registerOnce(d *door.Door, a api) {
	tags := []string{"effects"}
	id := door.PathText("id", "of the effect, as proceed gave it")
	d.RawOperation(huma.Operation{
		Method: http.MethodPost, Path: "/v1/effects", Tags: tags, OperationID: "begin-effect", Metadata: door.Work(),
		Summary: "Ask whether to act under a key",
		Description: "proceed: act now and record the outcome under the fence. done: it happened, here is its result. busy: another holder may be acting, come back. held: a stop forbids it, come back. " +
			"unknown: it may have happened; advice says what to do. The same holder gets the same fence again while its lease holds, so a lost answer costs nothing; " +
			"a program that may have acted comes as another holder. 409 key_mismatch, expired_key and damaged: never under this key.",
		MaxBodyBytes: door.OwnBody,
		RequestBody:  door.JSONBody(door.SchemaOf[onceBody](d)),
		Responses:    map[string]*huma.Response{"200": door.JSONAnswer("what to do", door.SchemaOf[onceAnswer](d))},
	}, authn.Operator, door.JSONHandler(a.begin))
	d.RawOperation(huma.Operation{
		Method: http.MethodPut, Path: "/v1/effects/{id}", Tags: tags, OperationID: "record-effect", Metadata: door.Work(),
		Summary: "Record what became of an act",
		Description: "failed means that it surely did not happen; who does not know says nothing. The same outcome again is answered with 200. " +
			"409 fenced: the fence is no longer in force, the outcome is kept as a late receipt. 409 other_outcome: the first one stands.",
		Parameters:   []*huma.Param{id},
		MaxBodyBytes: door.OwnBody,
		RequestBody:  door.JSONBody(door.SchemaOf[recordBody](d)),
		Responses:    map[string]*huma.Response{"200": door.JSONAnswer("the effect as it stands", door.SchemaOf[Effect](d))},
	}, authn.Operator, door.JSONHandler(a.record))
	d.RawOperation(huma.Operation{
		Method: http.MethodPost, Path: "/v1/effects/{id}/renew", Tags: tags, OperationID: "renew-effect", Metadata: door.Work(),
		Summary:      "Extend the lease of an act under way",
		Description:  "Never shortens it. 409 fenced: stop acting.",
		Parameters:   []*huma.Param{id},
		MaxBodyBytes: door.OwnBody,
		RequestBody:  door.JSONBody(door.SchemaOf[renewBody](d)),
		Responses:    map[string]*huma.Response{"200": door.JSONAnswer("the lease", door.SchemaOf[onceAnswer](d))},
	}, authn.Operator, door.JSONHandler(a.renew))
}

// Bodies of at most this size are read; a result may be as long as one message.
const maxOnceBody = 1 << 20

type onceBody struct {
	Key          string          `json:"key" doc:"what must happen at most once; also what the other side should get as Idempotency-Key"`
	Tool         string          `json:"tool,omitempty" doc:"what acts, a free name: keys of two tools never meet. The ledger shows it as program/<tool>; absent: act"`
	Args         json.RawMessage `json:"args,omitempty" doc:"what the act depends on, any JSON value: the same key with other arguments is refused"`
	Holder       string          `json:"holder" doc:"one attempt of one process; another attempt is another holder"`
	LeaseSeconds int             `json:"lease_seconds,omitempty" minimum:"1" maximum:"3600" doc:"how long the act may take before it is in doubt; absent: 30"`
	OnDoubt      string          `json:"on_doubt,omitempty" enum:"ask,retry,fail" doc:"of an act that may have happened. ask: a person says (absent means this). retry: the other side honours the key, act again. fail: nobody is asked"`
	RunID        string          `json:"run_id,omitempty" doc:"of the run that acts, so that it is found by it"`
}

type onceAnswer struct {
	Status     string          `json:"status" enum:"proceed,done,busy,unknown,held"`
	EffectID   string          `json:"effect_id" doc:"empty with held"`
	Key        string          `json:"key"`
	Fence      int64           `json:"fence,omitempty" doc:"with proceed: the epoch in which to act and record"`
	LeaseUntil time.Time       `json:"lease_until,omitzero" doc:"with proceed: by the database's clock"`
	LeaseMs    int64           `json:"lease_ms,omitempty" doc:"with proceed: what is left of the lease when the answer was made"`
	Result     json.RawMessage `json:"result,omitempty" doc:"with done: what was recorded"`
	Holder     string          `json:"holder,omitempty" doc:"with busy: who may be acting"`
	RetryAfter float64         `json:"retry_after,omitempty" doc:"with busy and held: seconds until it is worth asking again"`
	InDoubt    string          `json:"in_doubt,omitempty" doc:"with unknown: ask or fail"`
	Advice     string          `json:"advice,omitempty" doc:"with unknown: what to do; with held: whose stop it is"`
}

// begin answers POST /v1/effects.
func (a api) begin(w http.ResponseWriter, r *http.Request) error {
	in, err := door.ReadJSON[onceBody](r, maxOnceBody)
	if err != nil {
		return err
	}
	who, _ := authn.FromContext(r.Context())
	if in.Tool == "" {
		in.Tool = "act"
	}
	out, err := a.service.BeginOnce(r.Context(), tools.Once{
		Namespace: who.Namespace, Tool: in.Tool, Key: in.Key, Args: in.Args, Holder: in.Holder,
		Lease: leaseOf(in.LeaseSeconds), OnDoubt: in.OnDoubt, RunID: events.RunID(in.RunID),
	})
	if err != nil {
		return onceProblem("", err)
	}
	if out.Status == tools.OnceBusy || out.Status == tools.OnceHeld {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(out.RetryAfter.Seconds()))))
	}
	door.AnswerJSON(w, r, http.StatusOK, showOnce(out))
	return nil
}

func showOnce(o tools.OnceAnswer) onceAnswer {
	e := o.Effect
	out := onceAnswer{Status: o.Status, EffectID: e.ID, Key: e.Key}
	switch o.Status {
	case tools.OnceProceed:
		out.Fence, out.LeaseUntil, out.LeaseMs = e.Claim.Epoch, e.Claim.LeaseUntil, o.LeaseLeft.Milliseconds()
	case tools.OnceDone:
		out.Result = e.Result
	case tools.OnceBusy:
		out.Holder, out.RetryAfter = e.Claim.Worker, float64(o.RetryAfter.Milliseconds())/1000
	case tools.OnceHeld:
		out.RetryAfter, out.Advice = float64(o.RetryAfter.Milliseconds())/1000, o.Advice
	case tools.OnceUnknown:
		out.InDoubt, out.Advice = e.InDoubt, o.Advice
	}
	return out
}

type recordBody struct {
	Fence   int64           `json:"fence" minimum:"1"`
	Status  string          `json:"status" enum:"succeeded,failed"`
	Result  json.RawMessage `json:"result,omitempty" doc:"with succeeded: any JSON value; a repeat of the key gets it"`
	Error   *EffectError    `json:"error,omitempty" doc:"with failed"`
	Receipt json.RawMessage `json:"receipt,omitempty" doc:"what should be kept of this attempt, such as the other side's id; at most 16 KiB"`
}

// record answers PUT /v1/effects/{id}.
func (a api) record(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	in, err := door.ReadJSON[recordBody](r, maxOnceBody)
	if err != nil {
		return err
	}
	if !events.ValidToken(id) {
		return notFound(id)
	}
	who, _ := authn.FromContext(r.Context())
	rec := tools.OnceRecord{Namespace: who.Namespace, EffectID: id, Fence: in.Fence, Status: in.Status, Result: in.Result, Receipt: in.Receipt}
	if in.Error != nil {
		rec.Error = &events.Problem{Code: in.Error.Code, Message: in.Error.Message}
	}
	e, err := a.service.RecordOnce(r.Context(), rec)
	if err != nil {
		return onceProblem(id, err)
	}
	door.AnswerJSON(w, r, http.StatusOK, show(e))
	return nil
}

type renewBody struct {
	Fence        int64 `json:"fence" minimum:"1"`
	LeaseSeconds int   `json:"lease_seconds,omitempty" minimum:"1" maximum:"3600" doc:"from now on; absent: 30"`
}

// renew answers POST /v1/effects/{id}/renew.
func (a api) renew(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	in, err := door.ReadJSON[renewBody](r, 4096)
	if err != nil {
		return err
	}
	if in.Fence < 1 {
		return door.Error(http.StatusUnprocessableEntity, door.CodeInvalidInput, "fence is the number that proceed gave").At("body.fence", "missing")
	}
	if !events.ValidToken(id) {
		return notFound(id)
	}
	who, _ := authn.FromContext(r.Context())
	e, left, err := a.service.RenewOnce(r.Context(), who.Namespace, id, in.Fence, leaseOf(in.LeaseSeconds))
	if err != nil {
		return onceProblem(id, err)
	}
	door.AnswerJSON(w, r, http.StatusOK, showOnce(tools.OnceAnswer{Status: tools.OnceProceed, Effect: e, LeaseLeft: left}))
	return nil
}

// leaseOf turns seconds into a duration; the service judges it.
func leaseOf(seconds int) time.Duration {
	return time.Duration(max(min(seconds, 1_000_000), -1)) * time.Second
}

func onceProblem(id string, err error) error {
	if r, ok := errors.AsType[*tools.NotTaken](err); ok {
		return door.Error(http.StatusConflict, r.Code, r.Detail)
	}
	return problem(id, err)
}
