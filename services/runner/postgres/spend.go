package postgres

import (
	"fmt"
	"strings"
)

// spendSums add what a commit's rows used, as from has it, to the row s of runner.spend.
// They stop at the largest number: a report never keeps a run from going on.
func spendSums(from string) string {
	var sums []string
	for _, c := range []string{"calls", "input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "cost_micro_usd", "cost_estimated_micro_usd"} {
		sums = append(sums, fmt.Sprintf("%[1]s = least(s.%[1]s::numeric + %[2]s.%[1]s, 9223372036854775807)::bigint", c, from))
	}
	return strings.Join(sums, ", ")
}
