package tools

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// Damage says what is wrong with a stored effect that cannot be understood,
// empty when nothing is. Such a record is an error of its own: it is neither
// done nor free, so that a damaged row never lets an act happen again.
func Damage(e Effect) string {
	switch {
	case e.State != EffectSucceeded:
		return ""
	case len(e.Result) == 0:
		return "it succeeded and has no result"
	case e.OnDoubt != "": // the door took nothing else
		if _, err := events.Canonical(e.Result); err != nil {
			return "its result cannot be decoded: " + err.Error()
		}
	default:
		dec := json.NewDecoder(bytes.NewReader(e.Result))
		dec.UseNumber()
		var v any
		if err := dec.Decode(&v); err != nil {
			return "its result cannot be decoded: " + err.Error()
		}
		if _, err := dec.Token(); !errors.Is(err, io.EOF) {
			return "its result is more than one value"
		}
	}
	return ""
}

// closed is the answer of a call whose key can never be begun again, whatever
// its arguments: ok is true when it can, as far as this is concerned.
func closed(e Effect, key string) (a Answer, ok bool) {
	switch {
	case e.Damaged != "" && e.State != EffectIntent: // an intent's owner is still to say
		return Answer{Status: events.CallUnknown, InDoubt: DoubtFail, Epoch: e.Claim.Epoch, Error: problem(CodeDamaged,
			"the record of effect %s under key %q is damaged (%s): whether it happened is not known, it is not repeated; an operator must look", e.ID, key, e.Damaged)}, false
	case e.State == EffectExpired:
		return Answer{Status: events.CallFailed, Epoch: e.Claim.Epoch, Error: problem(CodeExpiredKey,
			"key %q was used before and its record has expired; it is never used again; nothing was done now", key)}, false
	}
	return Answer{}, true
}

// DamagedError is the damage of a stored error that cannot be decoded.
func DamagedError(err error) string { return fmt.Sprintf("its error cannot be decoded: %v", err) }
