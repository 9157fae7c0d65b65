package web

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
