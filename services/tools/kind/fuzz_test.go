package kind

import (
	"bufio"
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/holdfast-run/holdfast/pkg/events"
	"github.com/holdfast-run/holdfast/services/tools"
)

const canary = "sk-canary-7f1d"

// Whatever an MCP server answers is a result that the ledger can hold, within its limit,
// and shows no secret.
func FuzzMCPAnswer(f *testing.F) {
	for _, text := range []string{
		`{"content":[{"type":"text","text":"found"}]}`,
		`{"content":[{"type":"image","data":"aGk=","mimeType":"image/png"},{"type":"resource_link","uri":"file:///x","name":"x"},{"type":"resource","resource":{"uri":"u","text":"t"}}]}`,
		`{"structuredContent":{"id":12345678901234567890,"key":"` + canary + `"},"content":[]}`,
		`{"isError":true,"content":[{"type":"text","text":"no ` + canary + `"}]}`,
		`{"resultType":"input_required"}`, `{"content":[null,1,"a",[]]}`, `{"structuredContent":1e999}`, `[]`, `null`, ``,
	} {
		f.Add([]byte(text), uint16(200))
	}
	f.Fuzz(func(t *testing.T, raw []byte, limit uint16) {
		most := 64 + int(limit)
		out := answerOf(json.RawMessage(raw), newScrubber(map[string]string{"key": canary}), most, &keeper{r: tools.Request{}})
		if out.Result != nil && events.Check(out.Result) != nil {
			t.Errorf("the result is no JSON: %q", out.Result)
		}
		if out.Whole != nil && events.Check(out.Whole) != nil {
			t.Errorf("the whole value is no JSON: %q", out.Whole)
		}
		if (out.Verdict == tools.Happened) != (out.Error == nil) {
			t.Errorf("verdict %v with error %v", out.Verdict, out.Error)
		}
		shown := string(out.Result) + string(out.Whole)
		if out.Error != nil {
			shown += out.Error.Message
		}
		if strings.Contains(shown, canary) {
			t.Errorf("a secret is shown: %s", shown)
		}
	})
}

// What a server prints is cut into messages of bounded size, each read whole or refused.
func FuzzMCPLines(f *testing.F) {
	f.Add([]byte("hello\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n{\"jsonrpc\":\"2.0\",\"method\":\"x\"}"))
	f.Fuzz(func(t *testing.T, printed []byte) {
		r, n := bufio.NewReaderSize(bytes.NewReader(printed), 16), 0
		for {
			line, err := readLine(r)
			n += len(line)
			_, _ = jsonrpc.DecodeMessage(line) // an error is an answer
			if err != nil {
				break
			}
		}
		if n != len(printed) {
			t.Errorf("%d of %d bytes were read", n, len(printed))
		}
	})
}
