package web

import "html/template"

// signInFuncs are of the account's page.
var signInFuncs = template.FuncMap{"sessions": sessionRows, "outcomeChip": outcomeChip}

// outcomeChip is how the outcome of an act looks.
func outcomeChip(outcome string) Chip {
	switch outcome {
	case "done":
		return Chip{"chip k-ok bare", "s-ok", "done"}
	case "refused":
		return Chip{"chip k-idle", "s-cancel", "refused"}
	case "failed":
		return Chip{"chip k-bad", "s-bad", "failed"}
	}
	return Chip{"chip k-doubt", "s-doubt", "unknown"}
}

// sessionRows is what the part "session-rows" of that page shows: sessions, and which of
// them is the reader's own.
func sessionRows(rows any, this string) any {
	return struct {
		Rows any
		This string
	}{rows, this}
}
