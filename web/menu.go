package web

import "strings"

// Entry is one line of the menu.
type Entry struct{ Here, Path, Symbol, Title string }

// menu is what every page offers, in the order of the questions that people
// bring: what runs, what waits for me, what changed, what starts runs, what it
// cost, is all well. A page is the current one when its Frame's Here is equal.
var menu = []Entry{
	{"runs", "/", "s-run", "Runs"},
	{"approvals", "/ui/approvals", "s-you", "Approvals"},
	{"effects", "/ui/effects", "s-write", "Effects"},
	{"triggers", "/ui/triggers", "s-wait", "Triggers"},
	{"agents", "/ui/agents", "s-flow", "Agents and flows"},
	{"events", "/ui/events", "s-list", "Events"},
	{"budgets", "/ui/budgets", "s-cost", "Budgets and cost"},
	{"system", "/ui/system", "s-sys", "System"},
}

// sections are the pages that belong to an entry without being below it, and those of
// the menu's foot.
var sections = []Entry{
	{Here: "runs", Path: "/ui/runs"},
	{Here: "agents", Path: "/ui/definitions"},
	{Here: "agents", Path: "/ui/start"},
	{Here: "system", Path: "/ui/audit"},
	{Here: "system", Path: "/ui/notices"},
	{Here: "stops", Path: "/ui/stops", Symbol: "s-stop", Title: "Emergency stop"},
	{Here: "account", Path: "/ui/account", Symbol: "s-you", Title: "Account"},
}

// SectionOf is the entry that the page at path belongs to: where its list is. The
// sign-in and unknown paths have the first one's path and no Here.
func SectionOf(path string) Entry {
	in := func(e Entry) bool { return path == e.Path || e.Path != "/" && strings.HasPrefix(path, e.Path+"/") }
	for _, e := range menu {
		if in(e) {
			return e
		}
	}
	for _, s := range sections {
		if !in(s) {
			continue
		}
		for _, e := range menu {
			if e.Here == s.Here {
				return e
			}
		}
		return s
	}
	none := menu[0]
	none.Here = ""
	return none
}
