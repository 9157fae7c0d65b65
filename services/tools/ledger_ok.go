//go:build !holdfast_broken_ledger

package tools

// intentFirst says that the intent is committed before the request leaves.
const intentFirst = true
