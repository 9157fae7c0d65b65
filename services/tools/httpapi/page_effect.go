package httpapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/internal/authn"
	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/tools"
	"github.com/holdfast-run/holdfast/web"
)

// effectPage is one effect with all that the ledger has of it.
type effectPage struct {
	web.Frame
	E                        effectView
	InDoubt                  string // what is done about the doubt; empty when it is not one
	Effect                   Effect
	Known                    []knownView
	Calls                    []SharedCall
	MoreCalls                bool
	Verdicts                 []tools.Verdicted
	Args, Result, Digest     string
	Settles                  bool // who reads it may settle it
	Verdict, Typed, Evidence string
	Problem                  string
}

// settlePage asks once more, with what will follow.
type settlePage struct {
	web.Frame
	E                       effectView
	Verdict, Says, Button   string
	Result, Shown, Evidence string
	Follows                 []tools.Consequence
	More                    bool
	StopNote                string
}

// knownView is one thing that is known about an effect, and since when.
type knownView struct {
	At     time.Time
	Text   string
	Late   bool
	Detail string
}

func (p pages) find(r *http.Request, who authn.Principal) (tools.Effect, error) {
	id := r.PathValue("id")
	if !events.ValidToken(id) {
		return tools.Effect{}, notFound(id)
	}
	e, err := p.service.Effect(r.Context(), who.Namespace, id)
	if err != nil {
		return e, problem(id, err)
	}
	return e, nil
}

// effect answers GET /ui/effects/{id}.
func (p pages) effect(w http.ResponseWriter, r *http.Request) error {
	who, _ := authn.FromContext(r.Context())
	e, err := p.find(r, who)
	if err != nil {
		return err
	}
	return p.showEffect(w, r, who, e, http.StatusOK, effectPage{})
}

func (p pages) showEffect(w http.ResponseWriter, r *http.Request, who authn.Principal, e tools.Effect, status int, data effectPage) error {
	ctx := r.Context()
	marks, err := p.service.Ledger().Marks(ctx, []tools.Effect{e})
	if err != nil {
		return err
	}
	if data.Calls, err = p.sharers(ctx, e, 101); err != nil {
		return err
	}
	if len(data.Calls) > 100 {
		data.Calls, data.MoreCalls = data.Calls[:100], true
	}
	if data.Verdicts, err = p.service.Ledger().Verdicts(ctx, e.Namespace, e.ID); err != nil {
		return err
	}
	data.Frame = door.FrameOf(r, "Effect")
	data.E, data.Effect = viewOf(e, marks[e.ID], data.At), show(e)
	data.Known = knownOf(e, data.E)
	if string(e.Args) != "null" {
		data.Args = indented(e.Args)
	}
	data.Digest = string(e.ArgsDigest)
	if e.Damaged == "" {
		data.Result = indented(e.Result)
	}
	if e.Open() {
		data.InDoubt, data.Settles = e.InDoubt, who.Role.Allows(authn.Admin)
	}
	if data.Notice == "" && r.URL.Query().Get("done") == "settled" && e.SettledBy != "" {
		data.Notice = "Settled by " + e.SettledBy + ". What follows reaches the runs by itself."
	}
	return web.Write(w, status, "effect", data)
}

// settle answers POST /ui/effects/{id}: what will follow, and with sure the verdict.
func (p pages) settle(w http.ResponseWriter, r *http.Request) error {
	who, _ := authn.FromContext(r.Context())
	e, err := p.find(r, who)
	if err != nil {
		return err
	}
	typed, err := door.Form(r)
	if err != nil {
		return err
	}
	data := effectPage{Verdict: typed.Get("verdict"), Typed: strings.TrimSpace(strings.ReplaceAll(typed.Get("result"), "\r\n", "\n")), Evidence: strings.TrimSpace(typed.Get("evidence"))}
	again := func(status int, text string) error {
		data.Problem = text
		return p.showEffect(w, r, who, e, status, data)
	}
	var shown int64
	if _, err := fmt.Sscan(typed.Get("epoch"), &shown); err != nil || shown < 1 {
		return again(http.StatusUnprocessableEntity, "This form is not the one of this page. Nothing was done; choose again.")
	}
	verdict, known := verdicts[data.Verdict]
	switch {
	case !known:
		return again(http.StatusUnprocessableEntity, "Choose what happened; nothing was done.")
	case data.Evidence == "":
		return again(http.StatusUnprocessableEntity, "Say how you know: whoever reads the ledger later asks the same. Nothing was done.")
	case len(data.Evidence) > 4000:
		return again(http.StatusUnprocessableEntity, "How you know may have 4,000 bytes. Nothing was done.")
	case data.Typed != "" && data.Verdict != events.Happened:
		return again(http.StatusUnprocessableEntity, "Only what happened has a result: empty that field, or choose that it happened. Nothing was done.")
	case len(data.Typed) > maxResultBytes:
		return again(http.StatusUnprocessableEntity, "The result has more than 65,536 bytes; give a shorter one. Nothing was done.")
	case data.Typed != "" && !json.Valid([]byte(data.Typed)):
		return again(http.StatusUnprocessableEntity, "The result is not JSON: a text stands in quotes, like \"p-17\". Nothing was done.")
	case !e.Open():
		return again(http.StatusConflict, sentence((&tools.NotInDoubt{Effect: e}).Error())+" Your answer was not used.")
	case shown != e.Claim.Epoch:
		return again(http.StatusConflict, sentence((&tools.NotInDoubt{Effect: e, Shown: shown}).Error())+" Your answer was not used.")
	case typed.Get("sure") != "yes":
		return p.askSettle(w, r, who, e, verdict, data)
	}
	resolve := tools.Resolve{Namespace: who.Namespace, EffectID: e.ID, Verdict: data.Verdict, Comment: data.Evidence, By: who.Name, Epoch: shown}
	if data.Typed != "" {
		resolve.Result = json.RawMessage(data.Typed)
	}
	if _, err := p.service.Resolve(r.Context(), resolve); err != nil {
		failed := door.From(problem(e.ID, err))
		switch {
		case failed.Status == http.StatusServiceUnavailable:
			return again(failed.Status, "The verdict could not be confirmed. Send it again: it is taken once, however often it is sent.")
		case failed.Status == http.StatusInternalServerError:
			return err
		}
		if e, err = p.service.Effect(r.Context(), who.Namespace, e.ID); err != nil {
			return problem(e.ID, err)
		}
		return again(failed.Status, sentence(failed.Detail)+" Your answer was not used.")
	}
	http.Redirect(w, r, effectsPath+"/"+url.PathEscape(e.ID)+"?done=settled", http.StatusSeeOther)
	return nil
}

func (p pages) askSettle(w http.ResponseWriter, r *http.Request, who authn.Principal, e tools.Effect, verdict verdictWords, data effectPage) error {
	calls, err := p.service.Ledger().Sharers(r.Context(), e.Namespace, e.ID, 101)
	if err != nil {
		return err
	}
	marks, err := p.service.Ledger().Marks(r.Context(), []tools.Effect{e})
	if err != nil {
		return err
	}
	held, err := p.service.Standing(r.Context(), e)
	if err != nil {
		return err
	}
	ask := settlePage{Frame: door.FrameOf(r, verdict.asks), Verdict: data.Verdict, Says: verdict.says, Button: verdict.button,
		Result: data.Typed, Shown: fmt.Sprint(e.Claim.Epoch), Evidence: data.Evidence, More: len(calls) > 100}
	if ask.More {
		calls = calls[:100]
	}
	ask.E = viewOf(e, marks[e.ID], ask.At)
	ask.Follows = tools.Follows(e, data.Verdict, calls, data.Typed != "", held)
	return web.Write(w, http.StatusOK, "settle", ask)
}

type verdictWords struct{ asks, says, button string }

var verdicts = map[string]verdictWords{
	events.Happened:    {"Record that it happened", "You say: it happened.", "It happened"},
	events.NotHappened: {"Record that it did not happen", "You say: it did not happen. If it did, this does it twice.", "It did not happen"},
	events.GiveUp:      {"Give up finding out", "You say: nobody will find out.", "Give up"},
}

// knownOf lists what the ledger knows of an effect in the order of time.
func knownOf(e tools.Effect, v effectView) []knownView {
	who := "Intent written"
	if v.Program {
		who = "Begun by a program"
	}
	out := []knownView{{At: e.CreatedAt, Text: who + "; nothing had left before"}}
	var receipts []struct {
		Attempt string    `json:"attempt_id"`
		Epoch   int64     `json:"epoch"`
		Worker  string    `json:"worker"`
		Late    bool      `json:"late"`
		At      time.Time `json:"at"`
		Body    json.RawMessage
	}
	if err := json.Unmarshal(e.Receipts, &receipts); err != nil && len(e.Receipts) > 0 {
		return append(out, knownView{At: e.UpdatedAt, Text: "The receipts cannot be read: " + err.Error(), Detail: string(e.Receipts)})
	}
	for _, r := range receipts {
		text := receiptText(r.Body)
		if r.Late {
			text = "Too late to count: " + strings.ToLower(text[:1]) + text[1:]
		}
		out = append(out, knownView{At: r.At.UTC(), Text: fmt.Sprintf("%s (epoch %d, %s)", text, r.Epoch, cmp.Or(clip(r.Worker, 60), "no worker")), Late: r.Late, Detail: indented(r.Body)})
	}
	if e.Error != nil {
		out = append(out, knownView{At: e.UpdatedAt, Text: sentence(clip(e.Error.Message, 500))})
	}
	return out
}

// receiptText says what one attempt saw.
func receiptText(body json.RawMessage) string {
	var r struct {
		Verdict, Probe, Code, Error string
		Callback                    bool
		Status                      json.RawMessage
		DurationMs                  int64 `json:"duration_ms"`
	}
	if json.Unmarshal(body, &r) != nil {
		return "A receipt that cannot be read"
	}
	status := ""
	if s := plain(r.Status); s != "" && s != "0" && s != "null" {
		status = s
	}
	why := clip(r.Error, 300)
	if why != "" {
		why = ": " + why
	}
	answered := "It answered"
	if r.Callback {
		answered = "It posted later"
	}
	if status != "" && r.Verdict != "" {
		answered += " " + status
	}
	answered += fmt.Sprintf(" after %s", time.Duration(r.DurationMs)*time.Millisecond)
	switch {
	case r.Probe == "happened":
		return "A lookup found that it happened"
	case r.Probe == "not_happened":
		return "A lookup found that it did not happen"
	case r.Probe != "":
		return "A lookup decided nothing" + why
	case r.Verdict == "happened":
		return answered + ": it happened"
	case r.Verdict == "refused":
		return answered + " and refused" + why
	case r.Verdict == "not_sent":
		return "Nothing was sent" + why
	case r.Verdict == "accepted":
		return answered + ": accepted, the result comes later"
	case r.Verdict == "ambiguous":
		return "No clear answer, so it may have happened" + why
	case status != "":
		return "The program says: " + status
	}
	return "A receipt"
}

// sentence makes a text begin and end like one.
func sentence(s string) string {
	if s == "" {
		return s
	}
	s = strings.ToUpper(s[:1]) + s[1:]
	if !strings.HasSuffix(s, ".") {
		s += "."
	}
	return s
}
