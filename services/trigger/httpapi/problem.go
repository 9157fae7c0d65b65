package httpapi

import (
	"errors"
	"net/http"
	"time"

	"github.com/holdfast-run/holdfast/internal/door"
	"github.com/holdfast-run/holdfast/services/trigger"
)

// statuses of Refusals; a code that is not here is a 422.
var statuses = map[string]int{
	trigger.CodeUnknownTarget:   http.StatusNotFound,
	trigger.CodeUnknownWebhook:  http.StatusNotFound,
	trigger.CodeOverlap:         http.StatusConflict,
	trigger.CodeNotPaused:       http.StatusConflict,
	trigger.CodePausedByDef:     http.StatusConflict,
	trigger.CodeUnknownSched:    http.StatusNotFound,
	trigger.CodeUnknownDelivery: http.StatusNotFound,
	trigger.CodeNoReplay:        http.StatusConflict,
	trigger.CodeInvalidJSON:     http.StatusBadRequest,
	trigger.CodeInvalidText:     http.StatusBadRequest,
	trigger.CodeInvalidLabels:   http.StatusBadRequest,
	trigger.CodeInvalidKey:      http.StatusBadRequest,
	trigger.CodeMediaType:       http.StatusUnsupportedMediaType,
	trigger.CodeSignature:       http.StatusUnauthorized,
	trigger.CodeStale:           http.StatusUnauthorized,
	trigger.CodeRateLimited:     http.StatusTooManyRequests,
	trigger.CodeInFlight:        http.StatusTooManyRequests,
	trigger.CodeTooLarge:        http.StatusRequestEntityTooLarge,
}

// problem gives a Refusal its status; other errors go on to the door, which
// knows them.
func problem(err error) error {
	if errors.Is(err, trigger.ErrMisconfigured) {
		// The sender did nothing wrong and will send again.
		return door.Error(http.StatusServiceUnavailable, "misconfigured",
			"this webhook cannot be served as it is defined; the log says why; send the request again later").After(time.Minute).Because(err)
	}
	r, ok := trigger.AsRefusal(err)
	if !ok {
		return err
	}
	status, ok := statuses[r.Code]
	if !ok {
		status = http.StatusUnprocessableEntity
	}
	p := door.Error(status, r.Code, r.Message).Because(err)
	if r.After > 0 {
		p.After(r.After)
	}
	for _, place := range r.Places {
		p.At(place.Path, place.Message)
	}
	return p
}
