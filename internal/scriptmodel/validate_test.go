package scriptmodel

import (
	"fmt"
	"strings"
	"testing"
)

const (
	toolsJSON = `[{"name":"fetch_page","input_schema":{"type":"object"}}]`
	user      = `{"role":"user","content":"check shop-01"}`
)

func body(rest string) string {
	return `{"model":"m","max_tokens":100,"tools":` + toolsJSON + `,` + rest + `}`
}

// TestRefused sends histories that a provider refuses. Answers are those of
// priceScript, so that only the named rule is broken.
func TestRefused(t *testing.T) {
	t.Parallel()
	s := setup(t, Config{Key: func(Request) string { return "k" }})
	_, first := post(t, s, body(`"messages":[`+user+`]`))
	content := first[strings.Index(first, `"content":`)+len(`"content":`) : strings.Index(first, `,"stop_reason"`)]
	answer := `{"role":"assistant","content":` + content + `}`
	id := func(n int) string { return callIDOf("k", 0, n) }
	result := func(n int) string {
		return fmt.Sprintf(`{"type":"tool_result","tool_use_id":%q,"content":"ok"}`, id(n))
	}
	history := func(last string) string {
		return body(`"messages":[` + user + `,` + answer + `,{"role":"user","content":[` + last + `]}]`)
	}
	tests := map[string]struct{ body, want string }{
		"no max_tokens":                    {`{"model":"m","messages":[` + user + `]}`, "max_tokens: Field required"},
		"max_tokens of zero":               {`{"model":"m","max_tokens":0,"messages":[` + user + `]}`, "max_tokens"},
		"no model":                         {`{"max_tokens":1,"messages":[` + user + `]}`, "model: Field required"},
		"no messages":                      {body(`"messages":[]`), "at least one message"},
		"unknown member":                   {body(`"colour":1,"messages":[` + user + `]`), "colour: Extra inputs"},
		"unknown member of a message":      {body(`"messages":[{"role":"user","content":"x","id":"1"}]`), "id: Extra inputs"},
		"first message is an answer":       {body(`"messages":[{"role":"assistant","content":"x"}]`), "roles must alternate"},
		"two user messages":                {body(`"messages":[` + user + `,` + user + `]`), "roles must alternate"},
		"ends with an answer":              {body(`"messages":[` + user + `,{"role":"assistant","content":"x"}]`), "must end with a user message"},
		"empty content":                    {body(`"messages":[{"role":"user","content":[]}]`), "must be non-empty"},
		"null content":                     {body(`"messages":[{"role":"user","content":null}]`), "must be non-empty"},
		"blank text":                       {body(`"messages":[{"role":"user","content":" \n"}]`), "non-whitespace"},
		"empty system prompt":              {body(`"system":"","messages":[` + user + `]`), "system"},
		"unknown block":                    {body(`"messages":[{"role":"user","content":[{"type":"hologram"}]}]`), `"hologram" is not known`},
		"a call by the user":               {body(`"messages":[{"role":"user","content":[{"type":"tool_use","id":"a","name":"b","input":{}}]}]`), "can only be in assistant"},
		"tool name twice":                  {`{"model":"m","max_tokens":1,"messages":[` + user + `],"tools":[{"name":"a","input_schema":{"type":"object"}},{"name":"a","input_schema":{"type":"object"}}]}`, "must be unique"},
		"tool without a schema":            {`{"model":"m","max_tokens":1,"messages":[` + user + `],"tools":[{"name":"a"}]}`, "input_schema"},
		"a result nobody asked for":        {body(`"messages":[{"role":"user","content":[` + result(0) + `]}]`), "unexpected tool_use_id"},
		"a missing result":                 {history(result(0)), "without tool_result blocks"},
		"no result at all":                 {history(`{"type":"text","text":"go on"}`), "without tool_result blocks"},
		"a result twice":                   {history(result(0) + "," + result(1) + "," + result(1)), "single result"},
		"one result too many":              {history(result(0) + "," + result(1) + "," + result(2)), "unexpected tool_use_id"},
		"text before results":              {history(`{"type":"text","text":"x"},` + result(0) + "," + result(1)), "must come before text"},
		"empty text in a result":           {history(fmt.Sprintf(`{"type":"tool_result","tool_use_id":%q,"content":[{"type":"text","text":""}]},`, id(0)) + result(1)), "non-whitespace"},
		"unknown block in a result":        {history(fmt.Sprintf(`{"type":"tool_result","tool_use_id":%q,"content":[{"type":"tool_use"}]},`, id(0)) + result(1)), "not allowed in a tool_result"},
		"call id twice":                    {strings.ReplaceAll(history(result(0)), id(1), id(0)), "must be unique"},
		"input that is no object":          {strings.Replace(history(result(0)+","+result(1)), `"input":{"url":"http://a.example/?x=1&y=2"}`, `"input":"x"`, 1), "must be an object"},
		"thinking that was touched":        {strings.Replace(history(result(0)+","+result(1)), "Two pages", "Two  pages", 1), "signature"},
		"thinking without its signature":   {strings.Replace(history(result(0)+","+result(1)), `"signature"`, `"sig"`, 1), "signature"},
		"tools gone":                       {strings.Replace(history(result(0)+","+result(1)), `"tools":`+toolsJSON+`,`, "", 1), "must define tools"},
		"tools changed":                    {strings.Replace(history(result(0)+","+result(1)), `"type":"object"`, `"type":"object","title":"x"`, 1), "differs from the first request"},
		"system prompt changed":            {strings.Replace(history(result(0)+","+result(1)), `"messages"`, `"system":"new","messages"`, 1), "differs from the first request"},
		"question changed":                 {strings.Replace(history(result(0)+","+result(1)), "shop-01", "shop-02", 1), "differs from what an earlier request"},
		"answer that was not given":        {strings.Replace(history(result(0)+","+result(1)), "I look at", "I looked at", 1), "never given"},
		"a digit of an argument is lost":   {strings.Replace(history(result(0)+","+result(1)), "12345678901234567890", "12345678901234567000", 1), "never given"},
		"an answer with a part left out":   {strings.Replace(history(result(0)+","+result(1)), `{"type":"text","text":"I look at both pages."},`, "", 1), "never given"},
		"an invented answer without calls": {body(`"messages":[` + user + `,{"role":"assistant","content":"done"},{"role":"user","content":"go on"}]`), "never given"},
	}
	for name, tc := range tests {
		before := len(s.server.Violations())
		status, got := post(t, s, tc.body)
		if status != 400 || !strings.Contains(got, "invalid_request_error") || !strings.Contains(strings.ReplaceAll(got, `\"`, `"`), tc.want) {
			t.Errorf("%s: %d %s, want 400 with %q", name, status, got, tc.want)
		}
		if after := len(s.server.Violations()); after != before+1 {
			t.Errorf("%s: %d violations recorded, want 1", name, after-before)
		}
	}
	accepted := map[string]string{
		"results in another order":   history(result(1) + "," + result(0)),
		"an empty result":            strings.Replace(history(result(1)+","+result(0)), `"content":"ok"`, `"content":""`, 1),
		"text after results":         history(result(1) + "," + result(0) + `,{"type":"text","text":"hurry"}`),
		"a cache marker that moved":  strings.Replace(history(result(1)+","+result(0)), `"content":"ok"`, `"content":"ok","cache_control":{"type":"ephemeral"}`, 1),
		"characters escaped":         strings.Replace(history(result(1)+","+result(0)), "<should>", `\u003cshould\u003e`, 1),
		"the first request repeated": body(`"messages":[` + user + `]`),
	}
	for name, req := range accepted {
		// Each is a way to continue, so each gets a conversation of its own.
		fresh := setup(t, Config{Key: func(Request) string { return "k" }})
		if status, got := post(t, fresh, body(`"messages":[`+user+`]`)); status != 200 {
			t.Fatalf("first request: %d %s", status, got)
		}
		if status, got := post(t, fresh, req); status != 200 {
			t.Errorf("%s: %d %s, want 200", name, status, got)
		}
	}
}

// TestResultsAreFrozen: what a tool answered may not change later.
func TestResultsAreFrozen(t *testing.T) {
	t.Parallel()
	s := setup(t, Config{Script: func(r Request) (Answer, error) {
		return Answer{Parts: []Part{Call("fetch_page", map[string]int{"n": r.Turn()})}}, nil
	}, Key: func(Request) string { return "k" }})
	message := func(turn int, result string) string {
		return fmt.Sprintf(`,{"role":"assistant","content":[{"type":"tool_use","id":%q,"name":"fetch_page","input":{"n":%d}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":%q,"content":%q}]}`,
			callIDOf("k", turn, 0), turn, callIDOf("k", turn, 0), result)
	}
	for _, step := range []struct {
		messages string
		want     int
	}{
		{user, 200},
		{user + message(0, "10 EUR"), 200},
		{user + message(0, "11 EUR"), 400},
		{user + message(0, "10 EUR") + message(1, "x"), 200},
		{user + message(0, "10 EUR"), 200},
	} {
		if status, got := post(t, s, body(`"messages":[`+step.messages+`]`)); status != step.want {
			t.Errorf("%s: %d %s, want %d", step.messages, status, got, step.want)
		}
	}
}

// A conversation may begin with the turns of another one, word for word, and with
// nothing else.
func TestConversation_GoesOnFromAnotherOne(t *testing.T) {
	t.Parallel()
	answer := Message{Role: "assistant", Blocks: []Block{{Type: "text", Text: "I look."}}}
	old := &conversation{}
	old.gave(0, answer.Blocks, "end_turn")
	user := func(text string) Message {
		return Message{Role: "user", Blocks: []Block{{Type: "text", Text: text}}}
	}
	r := Request{Messages: []Message{user("hello"), answer, user("go on")}}
	from := others{summarized: func(string) bool { return false }, gave: func(place int, m Message) (given, paused bool) {
		return old.wasGiven(place, m), old.paused[messageDigest(m)]
	}}
	if _, err := (&conversation{}).check(r, false, from); err != nil {
		t.Errorf("the old turns are refused: %v", err)
	}
	if _, err := (&conversation{}).check(r, false, nobody); err == nil {
		t.Error("an answer that nobody gave is taken over")
	}
	later := &conversation{}
	if _, err := later.check(Request{Messages: []Message{user("hello")}}, false, from); err != nil {
		t.Fatal(err)
	}
	if _, err := later.check(r, false, from); err == nil {
		t.Error("a conversation that has begun takes over another one's answer")
	}
	end := Request{Messages: []Message{user("hello"), answer}}
	if _, err := (&conversation{}).check(end, false, from); err == nil {
		t.Error("a history that ends with a whole answer is taken over")
	}
	old.gave(0, answer.Blocks, "pause_turn")
	if _, err := (&conversation{}).check(end, false, from); err != nil {
		t.Errorf("a turn that was paused elsewhere does not go on: %v", err)
	}
}

// A conversation is shortened by a summary that was given in it, and its answers
// behind that come one after the other, word for word.
func TestConversation_IsShortenedByItsSummary(t *testing.T) {
	t.Parallel()
	user := func(text string) Message {
		return Message{Role: "user", Blocks: []Block{{Type: "text", Text: text}}}
	}
	says := func(text string) Message {
		return Message{Role: "assistant", Blocks: []Block{{Type: "text", Text: text}}}
	}
	whole := func(t *testing.T) *conversation {
		c := &conversation{}
		var messages []Message
		for i, text := range []string{"one", "two", "three"} {
			messages = append(messages, user("say "+text))
			if _, err := c.check(Request{Messages: messages}, false, nobody); err != nil {
				t.Fatal(err)
			}
			c.gave(i, says(text).Blocks, "end_turn")
			messages = append(messages, says(text))
		}
		if _, err := c.check(Request{Messages: []Message{user("say one"), says("one"), user("sum it up")}}, true, nobody); err != nil {
			t.Fatal(err)
		}
		c.summaries = append(c.summaries, "it counts")
		return c
	}
	for name, tc := range map[string]struct {
		messages []Message
		wantErr  string
	}{
		"the newest answers":           {[]Message{user("say one\n\nit counts"), says("two"), user("say three"), says("three"), user("go on")}, ""},
		"no answer":                    {[]Message{user("say one\n\nit counts")}, ""},
		"no summary":                   {[]Message{user("say one"), says("two"), user("say three")}, "was never given"},
		"another summary":              {[]Message{user("say one\n\nit sings"), says("two"), user("go on")}, "is no summary of it"},
		"without what was asked first": {[]Message{user("it counts"), says("two"), user("go on")}, "is no summary of it"},
		"another question kept":        {[]Message{user("say one\n\nit counts"), says("two"), user("say four"), says("three"), user("go on")}, "differs from"},
		"an answer left out":           {[]Message{user("say one\n\nit counts"), says("one"), user("x"), says("three"), user("go on")}, "one after the other"},
		"an answer that was made up":   {[]Message{user("say one\n\nit counts"), says("four"), user("go on")}, "one after the other"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := whole(t).check(Request{Messages: tc.messages}, false, nobody)
			if tc.wantErr == "" && err != nil || tc.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tc.wantErr)) {
				t.Errorf("%v, want %q", err, tc.wantErr)
			}
		})
	}
}

// nobody is a server without another conversation.
var nobody = others{gave: func(int, Message) (given, paused bool) { return false, false }, summarized: func(string) bool { return false }}
