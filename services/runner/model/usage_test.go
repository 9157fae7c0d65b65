package model_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/pkg/spec"
)

// Streams whose counts are missing, null, said once, said again and again, or of one
// chunk alone. Counts that grow are never added up; what cannot be all of it is
// estimated by bytes, rather too high, and marked; nothing of it fails the answer.
func TestCaseF09_CountsOfStreams(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("four words and more ", 400)
	whole := func(u events.Usage) *events.Usage { return &u }
	claude := func(start string, deltas ...string) string {
		out := `event: message_start` + "\n" + `data: {"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null` + start + `}}` + "\n\n" +
			`data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}` + "\n\n" +
			fmt.Sprintf(`data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":%q}}`, text) + "\n\n" + `data: {"type":"content_block_stop","index":0}` + "\n\n"
		for i, d := range deltas {
			stop := "null"
			if i == len(deltas)-1 {
				stop = `"end_turn"`
			}
			out += `data: {"type":"message_delta","delta":{"stop_reason":` + stop + `}` + d + `}` + "\n\n"
		}
		return out + `data: {"type":"message_stop"}` + "\n\n"
	}
	chat := func(usages ...string) string { // one chunk for each, the text spread over them, and a last one without text
		out := ""
		for i, u := range usages[:len(usages)-1] {
			piece := text[i*len(text)/(len(usages)-1) : (i+1)*len(text)/(len(usages)-1)]
			out += fmt.Sprintf(`data: {"id":"1","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":%q},"finish_reason":null}]%s}`, piece, u) + "\n\n"
		}
		return out + `data: {"id":"1","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]` + usages[len(usages)-1] + "}\n\ndata: [DONE]\n\n"
	}
	response := func(usage string) string {
		return fmt.Sprintf(`data: {"type":"response.completed","response":{"id":"r","model":"m","status":"completed","output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":%q}]}]%s}}`, text, usage) + "\n\n"
	}
	chunk := func(in, out int) string {
		return fmt.Sprintf(`,"usage":{"prompt_tokens":%d,"completion_tokens":%d}`, in, out)
	}
	for name, tc := range map[string]struct {
		provider, sse string
		want          *events.Usage // nil: estimated
		input         int64         // that is said all the same; 0: none
	}{
		"claude, none":                   {spec.ProviderAnthropic, claude("", ""), nil, 0},
		"claude, null":                   {spec.ProviderAnthropic, claude(`,"usage":null`, `,"usage":null`), nil, 0},
		"claude, null fields":            {spec.ProviderAnthropic, claude(`,"usage":{"input_tokens":null,"output_tokens":null,"cache_read_input_tokens":null}`, `,"usage":{"output_tokens":null}`), nil, 0},
		"claude, the first alone":        {spec.ProviderAnthropic, claude(`,"usage":{"input_tokens":40,"output_tokens":1}`, ""), nil, 40},
		"claude, the last alone":         {spec.ProviderAnthropic, claude("", `,"usage":{"input_tokens":40,"output_tokens":2000}`), whole(events.Usage{InputTokens: 40, OutputTokens: 2000}), 0},
		"claude, growing":                {spec.ProviderAnthropic, claude(`,"usage":{"input_tokens":40,"cache_read_input_tokens":30,"output_tokens":1}`, `,"usage":{"output_tokens":900}`, `,"usage":{"output_tokens":2000}`), whole(events.Usage{InputTokens: 70, CacheReadTokens: 30, OutputTokens: 2000}), 0},
		"claude, words for numbers":      {spec.ProviderAnthropic, claude(`,"usage":{"input_tokens":"many","output_tokens":-5}`, `,"usage":{"output_tokens":1e400}`), nil, 0},
		"chat, none":                     {spec.ProviderOpenAIChat, chat("", "", ""), nil, 0},
		"chat, null":                     {spec.ProviderOpenAIChat, chat(`,"usage":null`, `,"usage":null`), nil, 0},
		"chat, null fields":              {spec.ProviderOpenAIChat, chat("", `,"usage":{"prompt_tokens":null,"completion_tokens":null,"prompt_tokens_details":null}`), nil, 0},
		"chat, zero":                     {spec.ProviderOpenAIChat, chat("", chunk(0, 0)), nil, 0},
		"chat, the first alone":          {spec.ProviderOpenAIChat, chat(chunk(40, 50), "", "", ""), nil, 40},
		"chat, the last alone":           {spec.ProviderOpenAIChat, chat("", "", chunk(40, 2000)), whole(events.Usage{InputTokens: 40, OutputTokens: 2000}), 0},
		"chat, growing":                  {spec.ProviderOpenAIChat, chat(chunk(40, 700), chunk(40, 1400), chunk(40, 2000), chunk(40, 2000)), whole(events.Usage{InputTokens: 40, OutputTokens: 2000}), 0},
		"chat, growing to the last text": {spec.ProviderOpenAIChat, chat(chunk(40, 700), chunk(40, 1400), chunk(40, 2000), ""), whole(events.Usage{InputTokens: 40, OutputTokens: 2000}), 0},
		"chat, each chunk its own":       {spec.ProviderOpenAIChat, chat(chunk(40, 5), chunk(40, 5), chunk(40, 5), chunk(40, 1)), nil, 40},
		"responses, none":                {spec.ProviderOpenAIResponses, response(""), nil, 0},
		"responses, null":                {spec.ProviderOpenAIResponses, response(`,"usage":null`), nil, 0},
		"responses, null fields":         {spec.ProviderOpenAIResponses, response(`,"usage":{"input_tokens":null,"output_tokens":null,"input_tokens_details":null,"output_tokens_details":{"reasoning_tokens":null}}`), nil, 0},
		"responses, one for all":         {spec.ProviderOpenAIResponses, response(`,"usage":{"input_tokens":40,"output_tokens":1}`), nil, 40},
		"responses, whole":               {spec.ProviderOpenAIResponses, response(`,"usage":{"input_tokens":40,"output_tokens":2000,"input_tokens_details":{"cached_tokens":30}}`), whole(events.Usage{InputTokens: 40, CacheReadTokens: 30, OutputTokens: 2000}), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := serving(t, "text/event-stream", func() []byte { return []byte(tc.sse) })
			r := ask(t, tc.provider, url)
			if tc.provider == spec.ProviderAnthropic {
				r = request(t, url)
			}
			got, err := adapter().Answer(t.Context(), r)
			if err != nil || got.Text != text {
				t.Fatalf("%v, text of %d bytes", err, len(got.Text))
			}
			switch u := got.Usage; {
			case tc.want != nil:
				if u != *tc.want {
					t.Errorf("usage %+v, want %+v", u, *tc.want)
				}
			case !u.Estimated || u.OutputTokens < int64(len(text)/4) || u.OutputTokens > int64(len(text)) || u.InputTokens == 0 || tc.input > 0 && u.InputTokens != tc.input:
				t.Errorf("usage %+v, want it estimated for %d bytes, with an input of %d if that was said", u, len(text), tc.input)
			}
		})
	}
}
