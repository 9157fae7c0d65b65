//go:build holdfast_broken_ledger

package tools

// intentFirst switches the ledger's intent off, so that a crash between act and
// record repeats the act. It exists to prove that a checker of duplicates finds
// them; no flag reaches it.
const intentFirst = false
