// Package tools runs tool calls and keeps the side-effect ledger.
//
// It consumes TOOLS (hf.tool.<pool>.<call>, hf.toolctl.<call>), publishes RUNS
// tool_completed, and owns the Postgres schema tools: calls, effects, receipts,
// controls.
//
// It guarantees that an act has a committed intent before its request leaves,
// that a side effect is begun at most once per key and epoch, and that an
// outcome which nobody knows is reported as unknown and follows the tool's
// policy. It never repeats blindly.
//
// Programs that are not our agents use the ledger through POST /v1/effects: the
// same rows, states and doubts, with a lease instead of a heartbeat.
//
// It cannot stop a process that was suspended between its last check and its
// request: only a key that the other side honours closes that gap.
package tools
