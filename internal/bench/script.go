package bench

import (
	"fmt"
	"regexp"
	"strconv"
)

// ScriptedRunnerCommand runs a runner whose model is Script, in its process: what
// Holdfast costs by itself. It is hidden from people.
const ScriptedRunnerCommand = "bench-runner"

// scriptedRunner is its process.
const scriptedRunner = "runner (scripted)"

// Said is what the scripted model says: a call of the agent's tool, or its last word.
type Said struct {
	Tool string // empty: it is done
	Args string // JSON
	Text string
}

var (
	turnsAsked = regexp.MustCompile(`"turns":\s*(\d+)`)
	keyAsked   = regexp.MustCompile(`"key":\s*"([^"]*)"`)
)

// Script answers for the agents of the bench. It is a pure function of the names of
// their tools, of the answers that a conversation has, and of its first message: call
// the tool as often as that says, then be done.
func Script(tools []string, answers int, first string) Said {
	turns := 0
	if m := turnsAsked.FindStringSubmatch(first); m != nil {
		turns, _ = strconv.Atoi(m[1]) // only digits
	}
	if len(tools) == 0 || answers >= turns {
		return Said{Text: "Everything is done."}
	}
	args := fmt.Sprintf(`{"n":%d}`, answers)
	if m := keyAsked.FindStringSubmatch(first); m != nil {
		args = fmt.Sprintf(`{"key":%q}`, m[1])
	}
	return Said{Tool: tools[0], Args: args, Text: fmt.Sprintf("Step %d of %d comes now.", answers+1, turns)}
}
