package tools_test

import (
	"fmt"
	"strings"
)

// Where a cell breaks. The words are those of docs/side-effects.md.
const (
	pointNone       = "nowhere"
	pointBegin      = "killed before the intent"
	pointIntent     = "killed after the intent, before the request"
	pointActed      = "killed after the other side's commit, before the record"
	pointRecorded   = "killed after the record, before the answer"
	pointSilentDone = "time-out, and it was done"
	pointSilentNot  = "time-out, and it was not done"
	pointShut       = "connection refused, then served"
)

var points = []string{pointNone, pointBegin, pointIntent, pointActed, pointRecorded, pointSilentDone, pointSilentNot, pointShut}

// policies lists those of each class. Where nothing is ever in doubt there is
// nothing to look up.
var policies = map[string][]string{
	"read": {"retry", "ask", "fail"}, "idempotent": {"retry", "ask", "fail"}, "write": {"retry", "probe", "ask", "fail"},
}

// seen is what the other side counts: requests, and how many of them changed
// something there.
type seen struct{ requests, applied int }

// promise is one row of the page: what holds for a class under its policies
// when it breaks at the point.
type promise struct {
	point            string
	honours, ignores seen // where the other side honours Idempotency-Key, and where it does not
	told             string
	verdict          *verdict // what follows where the outcome is unknown
}

// verdict is what the other side has counted in the end, after a person said
// that it happened, or that it did not. The model is then told succeeded.
type verdict struct{ happened, notHonours, notIgnores seen }

// group is a table of the page. Every policy of it is run.
type group struct {
	title, class string
	policies     []string
	promises     []promise
}

// promised is the promise. The test runs every row of it, and the page is
// written from it: change it as you would change a contract.
//
// A new policy is a line in policies, a group here and its YAML in matrixYAML.
var promised = []group{
	{"read, any policy", "read", []string{"retry", "ask", "fail"}, []promise{
		{pointNone, seen{1, 0}, seen{1, 0}, "succeeded", nil},
		{pointBegin, seen{1, 0}, seen{1, 0}, "succeeded", nil},
		{pointIntent, seen{1, 0}, seen{1, 0}, "succeeded", nil},
		{pointActed, seen{2, 0}, seen{2, 0}, "succeeded", nil},
		{pointRecorded, seen{1, 0}, seen{1, 0}, "succeeded", nil},
		{pointSilentDone, seen{2, 0}, seen{2, 0}, "succeeded", nil},
		{pointSilentNot, seen{2, 0}, seen{2, 0}, "succeeded", nil},
		{pointShut, seen{1, 0}, seen{1, 0}, "succeeded", nil},
	}},
	{"idempotent, any policy", "idempotent", []string{"retry", "ask", "fail"}, []promise{
		{pointNone, seen{1, 1}, seen{1, 1}, "succeeded", nil},
		{pointBegin, seen{1, 1}, seen{1, 1}, "succeeded", nil},
		{pointIntent, seen{1, 1}, seen{1, 1}, "succeeded", nil},
		{pointActed, seen{2, 1}, seen{2, 2}, "succeeded", nil},
		{pointRecorded, seen{1, 1}, seen{1, 1}, "succeeded", nil},
		{pointSilentDone, seen{2, 1}, seen{2, 2}, "succeeded", nil},
		{pointSilentNot, seen{2, 1}, seen{2, 1}, "succeeded", nil},
		{pointShut, seen{1, 1}, seen{1, 1}, "succeeded", nil},
	}},
	{"write, `retry`", "write", []string{"retry"}, []promise{
		{pointNone, seen{1, 1}, seen{1, 1}, "succeeded", nil},
		{pointBegin, seen{1, 1}, seen{1, 1}, "succeeded", nil},
		{pointIntent, seen{1, 1}, seen{1, 1}, "succeeded", nil},
		{pointActed, seen{2, 1}, seen{2, 2}, "succeeded", nil},
		{pointRecorded, seen{1, 1}, seen{1, 1}, "succeeded", nil},
		{pointSilentDone, seen{2, 1}, seen{2, 2}, "succeeded", nil},
		{pointSilentNot, seen{2, 1}, seen{2, 1}, "succeeded", nil},
		{pointShut, seen{1, 1}, seen{1, 1}, "succeeded", nil},
	}},
	{"write, `probe`", "write", []string{"probe"}, []promise{
		{pointNone, seen{1, 1}, seen{1, 1}, "succeeded", nil},
		{pointBegin, seen{1, 1}, seen{1, 1}, "succeeded", nil},
		{pointIntent, seen{1, 1}, seen{1, 1}, "succeeded", nil},
		{pointActed, seen{1, 1}, seen{1, 1}, "succeeded", nil},
		{pointRecorded, seen{1, 1}, seen{1, 1}, "succeeded", nil},
		{pointSilentDone, seen{1, 1}, seen{1, 1}, "succeeded", nil},
		{pointSilentNot, seen{2, 1}, seen{2, 1}, "succeeded", nil},
		{pointShut, seen{1, 1}, seen{1, 1}, "succeeded", nil},
	}},
	{"write, `ask`", "write", []string{"ask"}, doubtful},
	{"write, `fail`", "write", []string{"fail"}, doubtful},
}

// doubtful is what ask and fail promise: they differ in who is asked.
var doubtful = []promise{
	{pointNone, seen{1, 1}, seen{1, 1}, "succeeded", nil},
	{pointBegin, seen{1, 1}, seen{1, 1}, "succeeded", nil},
	{pointIntent, seen{0, 0}, seen{0, 0}, "unknown", &verdict{seen{0, 0}, seen{1, 1}, seen{1, 1}}},
	{pointActed, seen{1, 1}, seen{1, 1}, "unknown", &verdict{seen{1, 1}, seen{2, 1}, seen{2, 2}}},
	{pointRecorded, seen{1, 1}, seen{1, 1}, "succeeded", nil},
	{pointSilentDone, seen{1, 1}, seen{1, 1}, "unknown", &verdict{seen{1, 1}, seen{2, 1}, seen{2, 2}}},
	{pointSilentNot, seen{1, 0}, seen{1, 0}, "unknown", &verdict{seen{1, 0}, seen{2, 1}, seen{2, 1}}},
	{pointShut, seen{1, 1}, seen{1, 1}, "succeeded", nil},
}

// How a tool of the matrix meets its other side.
const (
	wayPatient = "patient"
	wayHasty   = "hasty" // gives up after a second
	wayShut    = "shut"  // knocks at a door that is closed at first
)

func matrixTool(class, policy, way string) string {
	return fmt.Sprintf("m_%s_%s_%s", class, policy, way)
}

// matrixYAML defines a tool for each class, policy and way.
func matrixYAML() string {
	var b strings.Builder
	for _, class := range []string{"read", "idempotent", "write"} {
		method := "POST"
		if class == "read" {
			method = "GET"
		}
		for _, policy := range policies[class] {
			inDoubt := policy
			if policy == "probe" {
				inDoubt = fmt.Sprintf(`{probe: {http: {url: "${env.%s}/look/${args.cell}"}, happened: answer.body.effects > 0, notHappened: answer.body.effects == 0, after: 100ms, every: 200ms}}`, envOutside)
			}
			for way, how := range map[string][2]string{
				wayPatient: {"20s", envOutside}, wayHasty: {"1s", envOutside}, wayShut: {"20s", envDoor},
			} {
				fmt.Fprintf(&b, `---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: %s}
spec:
  description: acts in a cell of the matrix
  input: {type: object}
  effect: %s
  inDoubt: %s
  timeout: %s
  http: {method: %s, url: "${env.%s}/act/${args.cell}"}
`, matrixTool(class, policy, way), class, inDoubt, how[0], method, how[1])
			}
		}
	}
	return b.String()
}
