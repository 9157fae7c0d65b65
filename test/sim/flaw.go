package sim

// Flaw is a bug that is planted on purpose: the promises must find it.
type Flaw int

// The flaws. None is the product as it is.
const (
	None                Flaw = iota
	AckBeforeCommit          // a message is acknowledged when it comes
	NoSecondLook             // who lost a commit does not read again and decide again
	NoCauseCheck             // nobody asks whether a cause was recorded before
	PublishBeforeCommit      // what a row says goes out before the row is there
	FencedModel              // a worker whose claim was taken calls the model and records the answer
	FencedAct                // a worker whose claim was taken acts
	NoYesAtIntent            // the statement that commits an intent does not look at the yes
	ActBeforeIntent          // the ledger's intent is committed behind the act
	NoPlace                  // orders have no place: the one that comes last holds
	StaleCache               // what a process remembers of a run decides that there is nothing to do
)

// Flaws lists all but None.
func Flaws() []Flaw {
	return []Flaw{AckBeforeCommit, NoSecondLook, NoCauseCheck, PublishBeforeCommit, FencedModel, FencedAct, NoYesAtIntent, ActBeforeIntent, NoPlace, StaleCache}
}

func (f Flaw) String() string {
	return [...]string{"none", "ack before commit", "no second look after a lost commit", "no cause check", "publish before commit",
		"a fenced worker calls the model", "a fenced worker acts", "no yes at the intent", "act before the intent", "orders without a place", "a stale cache decides"}[f]
}
