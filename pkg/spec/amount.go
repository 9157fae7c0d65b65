package spec

import (
	"strconv"
	"time"
)

// Amount is a number of a unit as people read it: "$1.5" of "micro_usd", "2h0m0s"
// of "seconds", the number itself of anything else.
func Amount(unit string, n int64) string {
	switch unit {
	case "micro_usd":
		return "$" + MicroUSD(n).String()
	case "seconds":
		return (time.Duration(n) * time.Second).String()
	}
	return strconv.FormatInt(n, 10)
}
