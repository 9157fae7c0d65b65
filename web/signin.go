package web

import "html/template"

// signInFuncs are of the account's page.
var signInFuncs = template.FuncMap{"sessions": sessionRows}

// sessionRows is what the part "session-rows" of that page shows: sessions, and which of
// them is the reader's own.
func sessionRows(rows any, this string) any {
	return struct {
		Rows any
		This string
	}{rows, this}
}
