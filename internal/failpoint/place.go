package failpoint

// Place is one place that code names in a call of Hit.
type Place struct {
	Name string
	In   []string // services whose processes pass it
	What string   // what was done last when a process dies there
}

var (
	everywhere = []string{"trigger", "runner", "tools", "approvals", "console"}
	inboxes    = []string{"runner", "tools", "approvals"}
	relays     = []string{"trigger", "tools", "approvals", "console"}
)

// Places lists every place that there is, in the order in which a message passes
// them. A test holds it against the code, in both directions. The result is the
// caller's.
func Places() []Place {
	return []Place{
		{"trigger.committed", []string{"trigger"}, "a start is committed, nothing announced or answered"},
		{"trigger.published", []string{"trigger"}, "a start is announced, its row not marked"},
		{"trigger.signal_kept", []string{"trigger"}, "a signal is committed, nothing announced or answered"},
		{"trigger.signal_published", []string{"trigger"}, "a signal is announced, its row not marked"},
		{"trigger.forgot", []string{"trigger"}, "rows of a deleted run are gone from this service"},

		{"runner.claimed", []string{"runner"}, "a model call is claimed, nothing asked"},
		{"runner.answered", []string{"runner"}, "the model has answered, nothing recorded"},
		{"runner.answer_committed", []string{"runner"}, "an answer is committed, its calls not sent"},
		{"runner.committed", []string{"runner"}, "rows are committed, nothing published"},
		{"runner.published", []string{"runner"}, "everything that rows say is published, nothing acknowledged"},
		{"runner.timer_due", []string{"runner"}, "a timer is taken, nothing published"},
		{"runner.timer_sent", []string{"runner"}, "a timer's message is published"},
		{"runner.purged", []string{"runner"}, "a slice of a deleted run is gone"},

		{"tools.begin", []string{"tools"}, "a call is taken, nothing committed"},
		{"tools.intent", []string{"tools"}, "the intent is committed, nothing sent"},
		{"tools.acted", []string{"tools"}, "the other side has acted and answered, nothing recorded"},
		{"tools.recorded", []string{"tools"}, "the outcome is committed, the run not told"},
		{"tools.looked", []string{"tools"}, "a doubt was looked up, nothing recorded"},
		{"tools.woken", []string{"tools"}, "a call whose time has come is taken, not sent"},
		{"tools.forgot", []string{"tools"}, "rows of a deleted run are gone from this service"},

		{"approvals.committed", []string{"approvals"}, "a decision is committed, nothing announced or answered"},
		{"approvals.published", []string{"approvals"}, "a decision is announced, its row not marked"},
		{"approvals.reminded", []string{"approvals"}, "a reminder is stored, nobody told"},
		{"approvals.escalated", []string{"approvals"}, "a step of an escalation is taken, nobody told"},
		{"approvals.telling", []string{"approvals"}, "a notice is taken, nothing sent"},
		{"approvals.told", []string{"approvals"}, "a notice is sent, nothing recorded"},
		{"approvals.forgot", []string{"approvals"}, "rows of a deleted run are gone from this service"},

		{"console.published", []string{"console"}, "a command is announced, its row not marked"},
		{"console.forgot", []string{"console"}, "rows of a deleted run are gone from this service"},

		{"bus.received", inboxes, "a message is delivered, nothing done"},
		{"bus.handled", inboxes, "a message is worked off, not acknowledged"},
		{"bus.acked", inboxes, "a message is acknowledged"},
		{"bus.publishing", everywhere, "a message is about to be published"},
		{"bus.published", everywhere, "NATS has stored a message, and its sender does not know"},

		{"pg.committing", everywhere, "a transaction is about to commit"},
		{"pg.committed", everywhere, "Postgres has committed, and who asked does not know"},

		{"relay.publishing", relays, "rows are taken to be announced, nothing sent"},
		{"relay.marking", relays, "rows are announced, not marked"},
		{"relay.marked", relays, "announced rows are marked"},
	}
}
