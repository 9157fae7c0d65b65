package events

import "strings"

const flowPoolPrefix = "flow-"

// FlowPool names the shared budget that is a ceiling of a flow's run, by its
// unit: "flow-<run id>-tokens".
func FlowPool(run RunID, unit string) string {
	return flowPoolPrefix + string(run) + "-" + strings.ToLower(unit)
}

// FlowOfPool is the flow's run whose ceiling a pool is.
func FlowOfPool(pool string) (run RunID, ok bool) {
	rest, ok := strings.CutPrefix(pool, flowPoolPrefix)
	i := strings.LastIndexByte(rest, '-')
	if !ok || i < 0 || !RunID(rest[:i]).Valid() {
		return "", false
	}
	return RunID(rest[:i]), true
}
