package kind

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/holdfast-run/holdfast/internal/egress"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/tools"
)

// judge says what an answer means by the status and by the definition's own
// rules. The rules never make a doubt smaller: an answer after which nobody
// knows whether an act happened is not "not sent" and not refused, whatever
// retry.on lists.
func judge(r tools.Request, resp egress.Response, read bool, scrub scrubber) tools.Outcome {
	def, keep := r.Tool.HTTP, &keeper{r: r}
	resp = unzipped(resp)
	var values map[string]json.RawMessage
	if def.Success != nil || def.Output != nil || def.Artifact != nil || def.Callback != nil {
		values = answerValues(resp, scrub)
	}
	if later := byAcceptance(def.Callback, values, resp.Status, scrub); later != nil {
		return *later
	}
	out := statusOutcome(resp, read, scrub)
	if def.Success != nil && !(read && resp.Broken != nil) {
		out = bySuccess(def.Success, values, resp, out, scrub)
	}
	switch {
	case r.Look && out.Verdict == tools.Refused && resp.Broken == nil && resp.Status < 500: // "there is none" is an answer too
		return tools.Outcome{Verdict: tools.Happened, Result: result(resp, scrub, outputLimit(r.Tool, maxResultBytes), keep)}
	case def.Retry != nil && resp.Status >= 300:
		out.Verdict = byRetry(def.Retry.On, resp.Status, read, out.Verdict)
	}
	if out.Verdict == tools.Happened {
		out.Result = mapped(def.Output, values, resp, scrub, outputLimit(r.Tool, maxResultBytes), keep)
		if r.Tool.OutputSchema != nil {
			out.Whole = wholeOf(def.Output, values, resp, scrub)
		}
		elsewhere(def.Artifact, values, keep)
		out.Artifacts = keep.list
	}
	return out
}

// wholeOf is the value that the model reads, or reads a part of; nil when the
// answer holds none.
func wholeOf(output *spec.Template, values map[string]json.RawMessage, resp egress.Response, scrub scrubber) json.RawMessage {
	whole := json.RawMessage(scrub.bytes(resp.Body))
	if output != nil {
		var err error
		if whole, err = output.Render(values); err != nil {
			return nil
		}
	}
	if resp.Truncated || resp.Broken != nil || len(whole) == 0 || !storable(whole) {
		return nil
	}
	return whole
}

// elsewhere notes where the thing is that the call made. An answer that does not
// say it leaves nothing.
func elsewhere(def *spec.HTTPArtifact, values map[string]json.RawMessage, keep *keeper) {
	if def == nil {
		return
	}
	uri, err := def.URI.Text(values)
	if err != nil || uri == "" {
		return
	}
	title, err := def.Title.Text(values)
	if err != nil {
		title = ""
	}
	keep.keep(tools.Artifact{URI: uri, Kind: def.Kind, Title: title})
}

// answerValues is what success and output read. Header names are in lower case;
// a body that is not JSON is text, and null when it is no text either.
func answerValues(resp egress.Response, scrub scrubber) map[string]json.RawMessage {
	headers := map[string]string{}
	for name, v := range resp.Header {
		headers[strings.ToLower(scrub.clean(name, 200))] = scrub.clean(strings.Join(v, ", "), 4<<10)
	}
	values := map[string]json.RawMessage{
		"status": json.RawMessage(fmt.Sprint(resp.Status)), "headers": json.RawMessage("{}"), "body": json.RawMessage("null"),
	}
	if b, err := events.Marshal(headers); err == nil {
		values["headers"] = b
	}
	body, broken := scrub.bytes(resp.Body), resp.Truncated || resp.Broken != nil
	if broken {
		body = scrub.cut(resp.Body)
	}
	switch {
	case !broken && len(body) > 0 && storable(body):
		values["body"] = body
	case encoding(resp) == "" && isText(resp.Header.Get("Content-Type"), body):
		if b, err := events.Marshal(clean(string(body), maxResultBytes)); err == nil {
			values["body"] = b
		}
	}
	return values
}

// bySuccess lets the definition say what happened. A condition that cannot be
// evaluated says nothing; about an answer that would have been a success, nobody
// knows then.
func bySuccess(success *spec.Condition, values map[string]json.RawMessage, resp egress.Response, out tools.Outcome, scrub scrubber) tools.Outcome {
	ok, err := success.Eval(values)
	switch {
	case err == nil && ok:
		return tools.Outcome{Verdict: tools.Happened}
	case out.Verdict != tools.Happened:
		return out
	case err != nil:
		return tools.Outcome{Error: &events.Problem{Code: "success_unknown",
			Message: clean("the answer does not say whether it happened: "+scrub.text(err.Error()), maxProblemBytes)}}
	}
	return tools.Outcome{Verdict: tools.Refused, Error: &events.Problem{Code: "not_successful", Message: refusalText(resp, scrub)}}
}

// byRetry applies the list of statuses that are tried again; an empty one
// changes nothing. What surely did not happen may be tried again when it is
// listed, and is final when it is not. So may a read. An act that may have
// happened is left to the tool's inDoubt.
func byRetry(on []int64, status int, read bool, v tools.Verdict) tools.Verdict {
	listed := slices.Contains(on, int64(status))
	switch {
	case len(on) == 0 || v == tools.Happened:
	case listed && v == tools.Refused:
		return tools.NotSent
	case !listed && (v == tools.NotSent || read && v == tools.Ambiguous):
		return tools.Refused
	}
	return v
}

// mapped is what the model reads of a success: what output makes of it, or the
// answer. It happened, so an output that cannot be made is a note.
func mapped(output *spec.Template, values map[string]json.RawMessage, resp egress.Response, scrub scrubber, limit int, keep *keeper) json.RawMessage {
	if output == nil {
		return result(resp, scrub, limit, keep)
	}
	made, err := output.Render(values)
	if err == nil && len(made) <= limit && storable(made) {
		return made
	}
	if err == nil { // too long: bounded like any answer, and kept whole
		made = scrub.bytes(made)
		return result(egress.Response{Status: resp.Status, Header: http.Header{"Content-Type": {"application/json"}}, Body: made}, scrub, limit, keep)
	}
	note := clean("the output could not be made of the answer, which follows: "+scrub.text(err.Error()), 500)
	b, err := events.Marshal(map[string]any{"note": note, "answer": result(resp, scrub, limit, keep)})
	if err != nil {
		return result(resp, scrub, limit, keep)
	}
	return b
}
